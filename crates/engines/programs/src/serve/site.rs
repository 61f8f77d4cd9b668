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
    /// The files of a folder.
    Files(Files),
}

/// The files of a folder, by their paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    contents: Vec<Content>,
    /// Numbers of contents by their path, which begins with `/`. The path of a folder ends with one; its content is that of its `index.html`.
    paths: HashMap<String, u32>,
    /// Folders with an `index.html`, by their path without the `/` at its end: numbers in `locations`.
    folders: HashMap<String, u32>,
    /// Paths of these folders, with the `/`, as they stand in a `Location` field.
    locations: Vec<String>,
}

/// What is at the target of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A content, by its number.
    Content(u32),
    /// A folder whose path lacks the `/` at its end: number of the path that has it.
    Moved(u32),
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
        let (mut files, mut bytes) = (Files::default(), 0);
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
                    if bytes > BYTES_MAX || files.contents.len() >= FILES_MAX {
                        return Err(SiteError::TooLarge(folder.to_owned()));
                    }
                    let body = std::fs::read(entry.path()).map_err(file_error)?;
                    files.add(url, Content { media_type: media_type(name), body });
                }
            }
        }
        Ok(Site::Files(files))
    }

    /// What is at the target of a request; `None` if nothing is.
    pub(super) fn find(&self, target: &str) -> Option<Found> {
        match self {
            Site::One(_) => Some(Found::Content(0)),
            Site::Files(files) => {
                let path = target.split(['?', '#']).next().unwrap_or_default();
                // An absolute target (RFC 9112 section 3.2.2).
                let path =
                    path.strip_prefix("http://").map_or(path, |rest| rest.find('/').map_or("/", |at| &rest[at..]));
                match path.contains('%') {
                    true => files.at(&decoded(path)?),
                    false => files.at(path),
                }
            }
        }
    }

    /// The content of that number.
    pub(super) fn content(&self, number: u32) -> Option<&Content> {
        match self {
            Site::One(content) => Some(content),
            Site::Files(files) => files.contents.get(number as usize),
        }
    }

    /// The path, as a `Location` field has it, of the folder of that number.
    pub(super) fn location(&self, number: u32) -> Option<&str> {
        match self {
            Site::One(_) => None,
            Site::Files(files) => files.locations.get(number as usize).map(String::as_str),
        }
    }

    /// True if methods that send something are answered, too.
    pub(super) fn takes_all_methods(&self) -> bool {
        matches!(self, Site::One(_))
    }
}

impl Files {
    /// Adds a file at a path, which begins with `/`. An `index.html` is its folder's content, too.
    pub fn add(&mut self, path: String, content: Content) {
        let number = self.contents.len() as u32;
        self.contents.push(content);
        if let Some(parent) = path.strip_suffix("/index.html") {
            self.paths.insert(format!("{parent}/"), number);
            if !parent.is_empty() {
                self.folders.insert(parent.to_owned(), self.locations.len() as u32);
                self.locations.push(format!("{}/", encoded(parent)));
            }
        }
        self.paths.insert(path, number);
    }

    fn at(&self, path: &str) -> Option<Found> {
        let content = || self.paths.get(path).copied().map(Found::Content);
        content().or_else(|| self.folders.get(path).copied().map(Found::Moved))
    }
}

/// A path as it stands in a URI (RFC 3986 section 3.3): all bytes but unreserved characters and `/` as `%41` and its like.
fn encoded(path: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
    path.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
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
        write("myindex.html", "no folder");
        std::fs::create_dir(folder.path().join("empty")).unwrap();
        std::fs::create_dir_all(folder.path().join("sub/ü 1%")).unwrap();
        write("sub/ü 1%/index.html", "deep");
        std::os::unix::fs::symlink("/etc/passwd", folder.path().join("link")).unwrap();
        let site = Site::read(folder.path()).unwrap();
        let body = |target: &str| match site.find(target)? {
            Found::Content(number) => Some(site.content(number).unwrap().body.clone()),
            Found::Moved(_) => None,
        };
        let moved = |target: &str| match site.find(target)? {
            Found::Content(_) => None,
            Found::Moved(number) => site.location(number),
        };
        assert_eq!(body("/").unwrap(), b"top");
        assert_eq!(body("/index.html?x=/").unwrap(), b"top");
        assert_eq!(body("http://a.example/sub/").unwrap(), b"below");
        assert_eq!(body("/sub/a%20b.txt").unwrap(), b"space");
        for missing in [
            "/my",
            "/empty",
            "/empty/",
            "/.secret",
            "/.",
            "/sub/..",
            "/%2e%2e/etc/passwd",
            "/sub%2f..%2f.secret",
            "/link",
            "/../etc/passwd",
            "/%",
            "/%zz",
            "/%+1",
            "",
            "/sub/a%2",
            "/%é",
        ] {
            assert_eq!(site.find(missing), None, "{missing}");
        }
        assert_eq!(body("/myindex.html").unwrap(), b"no folder");
        // A folder without its slash is elsewhere, by a path that is ASCII.
        assert_eq!((moved("/sub"), moved("/sub?x=1")), (Some("/sub/"), Some("/sub/")));
        let deep = moved("/sub/%c3%bc 1%25").unwrap();
        assert_eq!((deep, body(deep).unwrap()), ("/sub/%C3%BC%201%25/", b"deep".to_vec()));
        assert!(Site::read(Path::new("/nonexistent")).unwrap_err().to_string().contains("/nonexistent"));
    }
}
