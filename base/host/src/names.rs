//! Names of other hosts, from the system's name service.

use std::ffi::CStr;
use std::net::IpAddr;

/// The host name of an address (getnameinfo(3)), or `None` if it has none. May block for seconds.
#[allow(unsafe_code)]
pub fn of(address: IpAddr) -> Option<String> {
    const NAME_BYTES: usize = 1025;
    let mut name = [0_u8; NAME_BYTES];
    let mut ask = |address: *const libc::sockaddr, len: usize| {
        // SAFETY: `address` points to an initialised socket address of `len` bytes that outlives
        // the call, and `name` to `NAME_BYTES` writable bytes; no service name is requested.
        unsafe {
            libc::getnameinfo(
                address,
                len as libc::socklen_t,
                name.as_mut_ptr().cast(),
                NAME_BYTES as libc::socklen_t,
                std::ptr::null_mut(),
                0,
                libc::NI_NAMEREQD,
            )
        }
    };
    let failed = match address {
        IpAddr::V4(ip) => {
            let sin_addr = libc::in_addr { s_addr: u32::from_ne_bytes(ip.octets()) };
            let socket =
                libc::sockaddr_in { sin_family: libc::AF_INET as u16, sin_port: 0, sin_addr, sin_zero: [0; 8] };
            ask((&raw const socket).cast(), size_of_val(&socket))
        }
        IpAddr::V6(ip) => {
            let sin6_addr = libc::in6_addr { s6_addr: ip.octets() };
            let sin6_family = libc::AF_INET6 as u16;
            let socket =
                libc::sockaddr_in6 { sin6_family, sin6_port: 0, sin6_flowinfo: 0, sin6_addr, sin6_scope_id: 0 };
            ask((&raw const socket).cast(), size_of_val(&socket))
        }
    };
    if failed != 0 {
        return None;
    }
    CStr::from_bytes_until_nul(&name).ok()?.to_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_loopback_has_a_name_where_the_system_knows_one() {
        match super::of([127, 0, 0, 1].into()) {
            Some(name) => assert!(name.starts_with("localhost"), "{name}"),
            None => println!("skipped: /etc/hosts does not name 127.0.0.1"),
        }
        assert_eq!(super::of([192, 0, 2, 1].into()), None, "an address for documentation");
    }
}
