package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func sample(t *testing.T) Image {
	t.Helper()
	source := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(source, []byte("static"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Image{
		Name: "myelin/sample:dev", Entrypoint: []string{"/program"}, User: "65532:65532",
		Files: []File{{Source: source, Path: "/program"}},
	}
}

func entries(t *testing.T, archive []byte) map[string][]byte {
	t.Helper()
	found := map[string][]byte{}
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if err == io.EOF {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		found[header.Name] = content
	}
}

func TestManifestNamesTheConfigAndTheLayer(t *testing.T) {
	image, buffer := sample(t), bytes.Buffer{}
	if err := image.Write(&buffer); err != nil {
		t.Fatal(err)
	}
	found := entries(t, buffer.Bytes())
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	if err := json.Unmarshal(found["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	var config struct {
		Config struct{ User string }
		Rootfs struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(found[manifest[0].Config], &config); err != nil {
		t.Fatal(err)
	}
	layer := found[manifest[0].Layers[0]]
	if manifest[0].RepoTags[0] != "myelin/sample:dev" || config.Config.User != "65532:65532" {
		t.Errorf("manifest %v, config %v", manifest, config)
	}
	if config.Rootfs.DiffIDs[0] != "sha256:"+sum(layer) {
		t.Errorf("layer has sum %s, config says %v", sum(layer), config.Rootfs.DiffIDs)
	}
	if string(entries(t, layer)["program"]) != "static" {
		t.Error("the layer does not hold the program")
	}
}

func TestSameContentGivesTheSameArchive(t *testing.T) {
	image, first, second := sample(t), bytes.Buffer{}, bytes.Buffer{}
	if err := image.Write(&first); err != nil {
		t.Fatal(err)
	}
	if err := image.Write(&second); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of one image differ")
	}
}

func TestFailedWriteLeavesNoFile(t *testing.T) {
	image, directory := sample(t), t.TempDir()
	image.Files[0].Source = filepath.Join(directory, "missing")
	if err := image.WriteFile(filepath.Join(directory, "image.tar")); err == nil {
		t.Error("a missing binary was accepted")
	}
	if left, _ := os.ReadDir(directory); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}
