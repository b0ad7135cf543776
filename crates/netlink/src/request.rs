//! One request, its answers.

use std::io;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkDeserializable,
    NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use netlink_sys::{Socket, SocketAddr};

/// A netlink socket in the network namespace of the thread that made it.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
    buffer: Vec<u8>,
}

impl Netlink {
    /// A socket of this protocol, `NETLINK_ROUTE` for one.
    ///
    /// # Errors
    /// Of the system.
    pub fn new(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink {
            socket,
            buffer: Vec::with_capacity(64 * 1024),
        })
    }

    /// Makes or changes one thing.
    ///
    /// # Errors
    /// The kernel refused, or could not be asked.
    pub fn change<M>(&mut self, message: M) -> io::Result<()>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        let flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        self.request(message, flags, |_| ())
    }

    /// Removes one thing.
    ///
    /// # Errors
    /// The kernel refused, or could not be asked.
    pub fn remove<M>(&mut self, message: M) -> io::Result<()>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        self.request(message, NLM_F_REQUEST | NLM_F_ACK, |_| ())
    }

    /// Asks for all of something; `each` is given each answer.
    ///
    /// # Errors
    /// The kernel refused, or could not be asked.
    pub fn dump<M>(&mut self, message: M, each: impl FnMut(M)) -> io::Result<()>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        self.request(message, NLM_F_REQUEST | NLM_F_DUMP, each)
    }

    fn request<M>(&mut self, message: M, flags: u16, mut each: impl FnMut(M)) -> io::Result<()>
    where
        M: NetlinkSerializable + NetlinkDeserializable,
    {
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        loop {
            self.buffer.clear();
            let received = self.socket.recv(&mut self.buffer, 0)?;
            let mut rest = self.buffer.get(..received).unwrap_or_default();
            while !rest.is_empty() {
                let answer = NetlinkMessage::<M>::deserialize(rest).map_err(io::Error::other)?;
                let length = (answer.header.length as usize).next_multiple_of(4);
                rest = rest.get(length..).unwrap_or_default();
                match answer.payload {
                    NetlinkPayload::Done(_) => return Ok(()),
                    NetlinkPayload::Error(error) => {
                        return match error.code {
                            None => Ok(()),
                            Some(_) => Err(error.to_io()),
                        };
                    }
                    NetlinkPayload::InnerMessage(message) => each(message),
                    _ => {}
                }
            }
        }
    }

    pub(crate) const fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Waits for what the kernel says next.
    pub(crate) fn receive(&mut self) -> io::Result<&[u8]> {
        self.buffer.clear();
        let received = self.socket.recv(&mut self.buffer, 0)?;
        Ok(self.buffer.get(..received).unwrap_or_default())
    }
}
