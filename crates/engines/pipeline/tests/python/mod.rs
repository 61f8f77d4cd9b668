//! Cases that a Python script of this folder makes with a library that may not be installed.

use std::io::ErrorKind;
use std::process::Command;

use serde_json::Value;

/// The cases as JSON lines; `None`, and the reason printed, where Python or the library is missing (exit status 3 of the script).
pub fn cases(python: &str, script: &str, arguments: &[&str], missing: &str) -> Option<String> {
    let script = format!("{}/tests/{script}", env!("CARGO_MANIFEST_DIR"));
    let output = match Command::new(python).arg(script).args(arguments).output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("skipped: python3 is not installed");
            return None;
        }
        Err(error) => panic!("{python}: {error}"),
    };
    if output.status.code() == Some(3) {
        println!("skipped: {missing}");
        return None;
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8(output.stdout).unwrap())
}

/// The bytes of a text of hexadecimal digits.
pub fn bytes(hexadecimal: &Value) -> Vec<u8> {
    let text = hexadecimal.as_str().unwrap().as_bytes();
    text.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}
