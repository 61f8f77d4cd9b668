//! The body of the fuzz target `http`, on mutations that are the same on every run.

#[path = "../../../../fuzz/bodies/http.rs"]
mod http;
#[path = "../../../../fuzz/bodies/mutate.rs"]
mod mutate;

/// What clients send and what servers answer, with the lengths of the pieces in front.
fn seeds() -> Vec<Vec<u8>> {
    let texts: [(u8, &str); 10] = [
        (7, "GET / HTTP/1.1\r\nHost: a\r\n\r\nHEAD /x?y HTTP/1.1\r\nHost: a\r\n\r\n"),
        (1, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.0\r\n\r\n"),
        (
            3,
            "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n3;a=b\r\nabc\r\n0\r\nT: x\r\n\r\n",
        ),
        (200, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n"),
        (20, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.1\r\nConnection: close\r\n\r\nx"),
        (5, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"),
        (
            2,
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
        ),
        (9, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\nuntil the end"),
        (50, "HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n"),
        (4, "HTTP/1.1 101 Switching\r\n\r\n"),
    ];
    texts.iter().map(|(piece, text)| [&[*piece][..], text.as_bytes()].concat()).collect()
}

#[test]
fn pieces_change_nothing_and_no_message_breaks_either_side() {
    let seeds = seeds();
    mutate::check_seeds("http", &seeds);
    mutate::each(&seeds, 5_000, http::run);
}

#[test]
fn heads_that_are_too_long_are_so_in_any_pieces() {
    for len in [16_000, 16_384, 16_500, 40_000] {
        for piece in [100, 255] {
            let head = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\nGET / HTTP/1.1\r\n\r\n", "x".repeat(len));
            http::run(&[&[piece][..], head.as_bytes()].concat());
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nA: {}\r\n\r\n", "x".repeat(len));
            http::run(&[&[piece][..], head.as_bytes()].concat());
        }
    }
}
