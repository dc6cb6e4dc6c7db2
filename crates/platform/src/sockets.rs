//! Connections whose peer has vanished silently, or does not read.

use std::{io, time::Duration};

#[cfg(unix)]
use std::os::fd::AsFd;

/// Closes a TCP connection when sent data is not acknowledged within that time: the peer's machine
/// is down or unreachable. Otherwise the system keeps retrying for a quarter of an hour. Idle
/// connections are not affected.
///
/// # Errors
/// When the system refuses; the connection then behaves as before.
#[cfg(target_os = "linux")]
pub fn end_when_unacknowledged(socket: impl AsFd, after: Duration) -> io::Result<()> {
    let milliseconds = u32::try_from(after.as_millis()).unwrap_or(u32::MAX);
    Ok(rustix::net::sockopt::set_tcp_user_timeout(socket, milliseconds)?)
}

/// On systems other than Linux this does nothing: the system's default timeout applies.
///
/// # Errors
/// None.
#[cfg(not(target_os = "linux"))]
pub fn end_when_unacknowledged<S>(_: S, _: Duration) -> io::Result<()> {
    Ok(())
}

/// Bounds the kernel's send buffer of a TCP connection, to about twice that many bytes, since the
/// kernel includes its overhead. Without it, on a fast network the kernel buffers megabytes for
/// each client that does not read, charged to the process's control group.
///
/// # Errors
/// When the system refuses; the system's default then applies.
#[cfg(unix)]
pub fn limit_send_buffer(socket: impl AsFd, bytes: usize) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_send_buffer_size(socket, bytes)?)
}

/// On systems other than Unix this does nothing: the system decides.
///
/// # Errors
/// None.
#[cfg(not(unix))]
pub fn limit_send_buffer<S>(_: S, _: usize) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_system_takes_the_time_over() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let stream = TcpStream::connect(address).expect("it listens");
        end_when_unacknowledged(&stream, Duration::from_secs(7)).expect("Linux has the option");
        assert_eq!(rustix::net::sockopt::tcp_user_timeout(&stream), Ok(7_000));
    }
    #[test]
    fn what_waits_to_be_sent_is_bounded() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let stream = TcpStream::connect(address).expect("it listens");
        limit_send_buffer(&stream, 64 << 10).expect("Linux has the option");
        assert_eq!(rustix::net::sockopt::socket_send_buffer_size(&stream), Ok(128 << 10));
    }
}
