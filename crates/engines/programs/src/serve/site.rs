//! What an HTTP server serves: one answer for every path, or the files of a folder, which are read once at the start.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Most bytes of a folder.
const BYTES_MAX: u64 = 1 << 30;
/// Most files of a folder.
const FILES_MAX: usize = 100_000;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Its media type.
    pub media_type: &'static str,
    /// Its bytes.
    pub body: Vec<u8>,
}

/// What a server serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Site {
    /// The same for every path.
    One(Content),
    /// Files by their path, which begins with `/`.
    Files(Vec<Content>, HashMap<String, u32>),
}

/// Why a folder cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// A file or folder cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// What the kernel answered.
        source: std::io::Error,
    },
    /// It is too large to be kept in memory.
    #[error("{0} holds more than 1 GiB or 100,000 files; serve a smaller folder")]
    TooLarge(PathBuf),
}

impl Site {
    /// An answer of `len` bytes of text.
    pub fn of_len(len: usize) -> Site {
        const TEXT: &[u8] = b"Linerate answers.\n";
        Site::One(Content { media_type: "text/plain", body: TEXT.iter().copied().cycle().take(len).collect() })
    }

    /// The files of a folder and its subfolders. Symbolic links and files whose names begin with `.` are left out.
    ///
    /// # Errors
    /// One cannot be read, or there are too many.
    pub fn read(folder: &Path) -> Result<Site, SiteError> {
        let (mut contents, mut paths, mut bytes) = (Vec::new(), HashMap::new(), 0);
        let mut folders = vec![(folder.to_owned(), "/".to_owned())];
        while let Some((path, prefix)) = folders.pop() {
            let io_error = |source| SiteError::Io { path: path.clone(), source };
            for entry in std::fs::read_dir(&path).map_err(io_error)? {
                let entry = entry.map_err(io_error)?;
                let (name, kind) = (entry.file_name(), entry.file_type().map_err(io_error)?);
                let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
                let url = format!("{prefix}{name}");
                if kind.is_dir() {
                    folders.push((entry.path(), format!("{url}/")));
                } else if kind.is_file() {
                    let file_error = |source| SiteError::Io { path: entry.path(), source };
                    bytes += entry.metadata().map_err(file_error)?.len();
                    if bytes > BYTES_MAX || contents.len() >= FILES_MAX {
                        return Err(SiteError::TooLarge(folder.to_owned()));
                    }
                    let body = std::fs::read(entry.path()).map_err(file_error)?;
                    let number = contents.len() as u32;
                    contents.push(Content { media_type: media_type(name), body });
                    if let Some(index_of) = url.strip_suffix("index.html") {
                        paths.insert(index_of.to_owned(), number);
                    }
                    paths.insert(url, number);
                }
            }
        }
        Ok(Site::Files(contents, paths))
    }

    /// Number of the content at the target of a request; `None` if there is none.
    pub(super) fn find(&self, target: &str) -> Option<u32> {
        match self {
            Site::One(_) => Some(0),
            Site::Files(_, paths) => {
                let path = target.split(['?', '#']).next().unwrap_or_default();
                // An absolute target (RFC 9112 section 3.2.2).
                let path =
                    path.strip_prefix("http://").map_or(path, |rest| rest.find('/').map_or("/", |at| &rest[at..]));
                match path.contains('%') {
                    true => paths.get(&decoded(path)?).copied(),
                    false => paths.get(path).copied(),
                }
            }
        }
    }

    /// The content of that number.
    pub(super) fn content(&self, number: u32) -> Option<&Content> {
        match self {
            Site::One(content) => Some(content),
            Site::Files(contents, _) => contents.get(number as usize),
        }
    }

    /// True if methods that send something are answered, too.
    pub(super) fn takes_all_methods(&self) -> bool {
        matches!(self, Site::One(_))
    }
}

/// The bytes that `%41` and its like stand for; `None` if they are malformed.
fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut parts = path.split('%');
    bytes.extend(parts.next()?.bytes());
    for part in parts {
        let (digits, rest) = part.split_at_checked(2)?;
        bytes
            .push(u8::from_str_radix(digits, 16).ok().filter(|_| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?);
        bytes.extend(rest.bytes());
    }
    String::from_utf8(bytes).ok()
}

fn media_type(name: &str) -> &'static str {
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "js" => "text/javascript",
        "json" => "application/json",
        "txt" | "md" => "text/plain",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "svg" => "image/svg+xml",
        "wasm" => "application/wasm",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_served_by_its_paths() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        write("index.html", "top");
        write("sub/index.html", "below");
        write("sub/a b.txt", "space");
        write(".secret", "no");
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
        let site = Site::read(folder.path()).unwrap();
        let body = |target: &str| site.find(target).map(|number| site.content(number).unwrap().body.clone());
        assert_eq!(body("/").unwrap(), b"top");
        assert_eq!(body("/index.html?x=/").unwrap(), b"top");
        assert_eq!(body("http://a.example/sub/").unwrap(), b"below");
        assert_eq!(body("/sub/a%20b.txt").unwrap(), b"space");
        for missing in ["/sub", "/.secret", "/link", "/../etc/passwd", "/%", "/%zz", "/%+1", "", "/sub/a%2", "/%é"] {
            assert_eq!(body(missing), None, "{missing}");
        }
        assert!(Site::read(Path::new("/nonexistent")).unwrap_err().to_string().contains("/nonexistent"));
    }
}
