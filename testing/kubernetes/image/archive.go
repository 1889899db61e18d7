// Package image writes container images as docker archives, from files alone: no container engine, no registry.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// Image is an image of one layer: a few files in an empty root directory.
type Image struct {
	Name       string   // with tag, such as myelin/broker:dev
	Entrypoint []string // what the container runs
	Env        []string // NAME=VALUE
	User       string   // numeric uid:gid; empty for root
	Files      []File
}

// File is a regular file of the image, readable and executable by everyone.
type File struct {
	Source string // where it is now
	Path   string // where the image has it, absolute
}

// Command is `kubenode image`.
func Command(args []string) error {
	flags := flag.NewFlagSet("image", flag.ExitOnError)
	output := flags.String("output", "", "archive to write")
	name := flags.String("name", "", "name and tag of the image")
	user := flags.String("user", "65532:65532", "numeric user and group of its process")
	env := flags.String("env", "PATH=/", "environment, separated by commas")
	flags.Usage = func() {
		fmt.Fprintln(flags.Output(), "usage: kubenode image -output FILE -name NAME:TAG [FLAGS] BINARY=/PATH...; the first is the entry point")
		flags.PrintDefaults()
	}
	_ = flags.Parse(args) // ExitOnError: it does not return an error
	if *output == "" || *name == "" || flags.NArg() == 0 {
		flags.Usage()
		return errors.New("an image needs -output, -name and a binary")
	}
	image := Image{Name: *name, User: *user, Env: strings.Split(*env, ",")}
	for _, argument := range flags.Args() {
		source, path, found := strings.Cut(argument, "=")
		if !found || !strings.HasPrefix(path, "/") {
			return fmt.Errorf("%q is not of the form BINARY=/PATH", argument)
		}
		image.Files = append(image.Files, File{Source: source, Path: path})
	}
	image.Entrypoint = []string{image.Files[0].Path}
	return image.WriteFile(*output)
}

// WriteFile writes the archive so that a reader never sees half of it.
func (i *Image) WriteFile(path string) error {
	partial := path + ".partial"
	file, err := os.Create(partial)
	if err != nil {
		return err
	}
	defer os.Remove(partial)
	if err := errors.Join(i.Write(file), file.Close()); err != nil {
		return err
	}
	return os.Rename(partial, path)
}

// Write writes the archive. The same content gives the same bytes, so an unchanged image keeps its identity.
func (i *Image) Write(w io.Writer) error {
	layer, err := i.layer()
	if err != nil {
		return err
	}
	layerSum := sum(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": i.Entrypoint, "Env": i.Env, "User": i.User},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + layerSum}},
	})
	if err != nil {
		return err
	}
	layerName, configName := layerSum+".tar", sum(config)+".json"
	manifest, err := json.Marshal([]any{map[string]any{
		"Config": configName, "RepoTags": []string{i.Name}, "Layers": []string{layerName},
	}})
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	for _, entry := range []struct {
		name    string
		content []byte
	}{{layerName, layer}, {configName, config}, {"manifest.json", manifest}} {
		if err := writeEntry(archive, entry.name, 0o644, entry.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

func (i *Image) layer() ([]byte, error) {
	var buffer bytes.Buffer
	layer := tar.NewWriter(&buffer)
	for _, file := range i.Files {
		content, err := os.ReadFile(file.Source)
		if err != nil {
			return nil, err
		}
		if err := writeEntry(layer, strings.TrimPrefix(file.Path, "/"), 0o755, content); err != nil {
			return nil, err
		}
	}
	err := layer.Close()
	return buffer.Bytes(), err
}

func writeEntry(w *tar.Writer, name string, mode int64, content []byte) error {
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

func sum(content []byte) string {
	digest := sha256.Sum256(content)
	return hex.EncodeToString(digest[:])
}
