//! Files of the operator's pod that objects may name: only those below the folder of their own namespace.

use std::path::{Path, PathBuf};

use crate::nats::login::CREDENTIALS_LENGTH_MAX;

/// Why a file is not read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileProblem {
    /// It is not below a folder that the object may read from. Whether it exists is not told.
    #[error(
        "`{path}` is not below the folder of namespace `{namespace}` in a credential root of the operator: put the file there, or use an Account with a Secret"
    )]
    NotAllowed {
        /// The path as written.
        path: String,
        /// Namespace of the object.
        namespace: String,
    },
    /// It cannot be used.
    #[error("`{path}`: {problem}")]
    Unreadable {
        /// The path as written.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
}

/// Reads a file that an object of `namespace` names.
///
/// # Errors
/// When it is elsewhere, too large, or no text.
pub async fn read(roots: &[PathBuf], namespace: &str, path: &str) -> Result<String, FileProblem> {
    let (roots, namespace, path) = (roots.to_vec(), namespace.to_owned(), path.to_owned());
    let shown: String = path.chars().filter(|c| !c.is_control()).take(200).collect();
    let read = tokio::task::spawn_blocking(move || read_now(&roots, &namespace, &path)).await;
    read.unwrap_or(Err(FileProblem::Unreadable { path: shown, problem: "could not be read" }))
}

fn read_now(roots: &[PathBuf], namespace: &str, path: &str) -> Result<String, FileProblem> {
    let shown: String = path.chars().filter(|c| !c.is_control()).take(200).collect();
    let found = allowed(roots, namespace, Path::new(path));
    let found = found
        .ok_or_else(|| FileProblem::NotAllowed { path: shown.clone(), namespace: namespace.to_owned() })?;
    let unreadable = |problem| FileProblem::Unreadable { path: shown.clone(), problem };
    let length = std::fs::metadata(&found).map_err(|_| unreadable("could not be read"))?;
    if !length.is_file() {
        return Err(unreadable("is no file"));
    }
    if length.len() > CREDENTIALS_LENGTH_MAX as u64 {
        return Err(unreadable("is larger than 64 KiB"));
    }
    std::fs::read_to_string(&found).map_err(|_| unreadable("is no text"))
}

/// The real path of a file, links followed, if it is below the namespace's folder in one of the roots.
fn allowed(roots: &[PathBuf], namespace: &str, path: &Path) -> Option<PathBuf> {
    // A namespace is a DNS label; anything else never came from Kubernetes.
    let is_label = !namespace.is_empty()
        && namespace.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if !is_label || !path.is_absolute() {
        return None;
    }
    let real = path.canonicalize().ok()?;
    roots.iter().find_map(|root| {
        let folder = root.join(namespace).canonicalize().ok()?;
        // The folder itself may be a link of the operator's own making, but not one that leads to another namespace.
        let inside = folder.starts_with(root.canonicalize().ok()?) && folder.ends_with(namespace);
        (inside && real.starts_with(&folder)).then(|| real.clone())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_files_of_the_own_namespace_are_read() {
        let folder = tempfile::TempDir::new().unwrap();
        let root = folder.path().join("creds");
        for namespace in ["blue", "red"] {
            std::fs::create_dir_all(root.join(namespace)).unwrap();
            std::fs::write(root.join(namespace).join("user.creds"), namespace).unwrap();
        }
        std::fs::write(folder.path().join("outside"), "outside").unwrap();
        std::fs::write(root.join("blue/large"), "x".repeat(CREDENTIALS_LENGTH_MAX + 1)).unwrap();
        std::os::unix::fs::symlink(folder.path().join("outside"), root.join("blue/link")).unwrap();
        std::os::unix::fs::symlink(root.join("red"), root.join("blue/folder")).unwrap();
        std::os::unix::fs::symlink(root.join("blue/user.creds"), root.join("blue/own")).unwrap();
        std::os::unix::fs::symlink(root.join("red"), root.join("green")).unwrap();
        let roots = [root.clone()];
        let path = |text: &str| root.join(text).display().to_string();
        let read = async |namespace: &str, path: String| read(&roots, namespace, &path).await;

        assert_eq!(read("blue", path("blue/user.creds")).await.unwrap(), "blue");
        assert_eq!(read("blue", path("blue/own")).await.unwrap(), "blue");
        for escape in [
            path("red/user.creds"),
            path("blue/../red/user.creds"),
            path("blue/link"),
            path("blue/folder/user.creds"),
            folder.path().join("outside").display().to_string(),
            path("blue/absent"),
            "/etc/passwd".to_owned(),
            "user.creds".to_owned(),
            "/proc/self/environ".to_owned(),
        ] {
            let error = read("blue", escape.clone()).await.unwrap_err();
            assert!(matches!(error, FileProblem::NotAllowed { .. }), "{escape}: {error}");
        }
        for namespace in ["", "..", "blue/../red", "green"] {
            assert!(read(namespace, path("red/user.creds")).await.is_err(), "{namespace}");
        }
        for unusable in [path("blue/large"), path("blue")] {
            assert!(matches!(read("blue", unusable).await, Err(FileProblem::Unreadable { .. })));
        }
        assert!(super::read(&[], "blue", &path("blue/user.creds")).await.is_err());
    }
}
