//! Groups client addresses into networks whose connections are counted together.

use std::net::IpAddr;

/// The network that identifies a client: an IPv4 address, or the /64 prefix of an IPv6 address,
/// because one host may use every address in a /64.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 64 << 64).into()),
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_of_ipv6_is_one_client() {
        let of = |text: &str| network(text.parse().expect("an address"));
        assert_eq!(of("2001:db8:0:1::7"), of("2001:db8:0:1:ffff::9"));
        assert_ne!(of("2001:db8:0:1::7"), of("2001:db8:0:2::7"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }
}
