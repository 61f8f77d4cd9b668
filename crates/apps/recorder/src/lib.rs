//! Captures under control: ports opened, lines and accounts. What packets pass of it is `linerate-recorder-loop`.
#![forbid(unsafe_code)]

pub mod capture;
