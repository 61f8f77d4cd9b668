//! An HTTP server on hyper and tokio, over Linerate's TCP stack instead of the kernel's.
//!
//!     cargo run --release -p linerate-endpoints --example hyper-server -- tap:lrhyper 198.18.6.1/24
//!     ip addr add 198.18.6.2/24 dev lrhyper; curl http://198.18.6.1/hello      # in another terminal
//!
//! Ctrl-C ends it.

use std::convert::Infallible;
use std::error::Error;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use linerate_endpoints::sockets::{Host, TcpListener};
use linerate_endpoints::{NetworkConfig, Options, StackOptions};
use linerate_sys::signal;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(port), Some(address)) = (arguments.next(), arguments.next()) else {
        return Err("usage: hyper-server PORT ADDRESS/LEN, as tap:lrhyper 198.18.6.1/24".into());
    };
    let network = NetworkConfig { port, addresses: vec![address.parse()?], ..NetworkConfig::default() };
    let options = Options {
        name: "hyper-server".into(),
        folder: None,
        cores: Vec::new(),
        stack: StackOptions { connections_max: 65_536, preallocated_connections: 0 },
        capture: None,
        on_event: Box::new(|line| eprintln!("{line}")),
    };
    signal::catch_stop_signals()?;
    let host = Host::start(&network, options)?;
    let listener = host.listen(([0, 0, 0, 0], 80).into())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().build()?;
    let serving = runtime.spawn(serve(listener));
    eprintln!("serving at {address}; Ctrl-C ends it");
    while !signal::stop_requested() && !serving.is_finished() {
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Serves each connection in a task of its own, until the host ends.
async fn serve(listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(async move {
            // A client that goes away in the middle is no reason to say anything.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(answer)).await;
        });
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(Response::new(Full::new(Bytes::from(format!("hyper answers {} {}\n", request.method(), request.uri())))))
}
