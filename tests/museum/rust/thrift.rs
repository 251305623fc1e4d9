// SPDX-License-Identifier: MIT
// Calls a procedure over framed transport. A frame's length and its contents are two writes of the server.
// Usage: thrift PORT [OPERATIONS]
mod rounds;
use std::io::{Read, Write};
use std::net::TcpStream;
use thrift::protocol::*;
use thrift::server::{TProcessor, TServer};
use thrift::transport::{TFramedReadTransportFactory, TFramedWriteTransportFactory};

struct Void;

impl TProcessor for Void {
    fn process(&self, input: &mut dyn TInputProtocol, output: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        let call = input.read_message_begin()?;
        input.skip(TType::Struct)?;
        input.read_message_end()?;
        output.write_message_begin(&TMessageIdentifier::new(call.name, TMessageType::Reply, call.sequence_number))?;
        output.write_field_stop()?;
        output.write_message_end()?;
        output.flush()
    }
}

fn main() {
    let port = std::env::args().nth(1).unwrap();
    if std::env::args().len() == 2 {
        let mut server = TServer::new(TFramedReadTransportFactory::new(), TBinaryInputProtocolFactory::new(),
            TFramedWriteTransportFactory::new(), TBinaryOutputProtocolFactory::new(), Void, 2);
        server.listen(format!("127.0.0.1:{}", port)).unwrap();
        return;
    }
    let mut server = TcpStream::connect(format!("127.0.0.1:{}", port)).unwrap();
    let call = b"\0\0\0\x11\x80\x01\0\x01\0\0\0\x04void\0\0\0\0\0";
    rounds::measure(|| {
        server.write_all(call).unwrap();
        let mut answer = [0; 21];
        server.read_exact(&mut answer).unwrap();
    });
}
