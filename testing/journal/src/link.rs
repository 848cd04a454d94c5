//! Links between processes: a proxy for connections whose bytes pass, are late, are held back or get lost, each way by itself.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use std::{fmt, mem, thread};

use enact_sync::{Condvar, Mutex};

const CHUNK: usize = 64 << 10;

/// What happens to bytes on their way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// They arrive.
    Passes,
    /// They arrive, each so much later.
    Late(Duration),
    /// They are kept, in order, until the flow is another one.
    Held,
    /// They never arrive. A connection that has lost some is closed when the flow is another one: no stream has a hole.
    Lost,
}

/// A port of this machine whose connections lead to another one. Closed when dropped, with all its connections.
///
/// The end of a connection travels as its bytes do: where they are held or get lost, the other side does not hear of it.
pub struct Link {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// From the side that connects, and back to it.
    flows: [Flow; 2],
    connections: BTreeMap<u64, Connection>,
    accepted: u64,
    is_over: bool,
}

struct Connection {
    /// The side that has connected, and the other one.
    ends: [TcpStream; 2],
    has_lost: [bool; 2],
}

impl Connection {
    fn close(&self) {
        for end in &self.ends {
            // It may be closed already.
            drop(end.shutdown(Shutdown::Both));
        }
    }
}

/// What was read at one moment; nothing at the end of the connection.
struct Chunk {
    bytes: Vec<u8>,
    read: Instant,
}

impl Link {
    /// A link to `port` of this machine, where nobody needs to listen yet.
    ///
    /// # Panics
    /// If no port is free.
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let own = listener.local_addr().expect("its address").port();
        let state = State { flows: [Flow::Passes; 2], connections: BTreeMap::new(), accepted: 0, is_over: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(("127.0.0.1", port));
                if accepting.state.lock().is_over {
                    return;
                }
                // Without the other side, this one hears that it is not there.
                if let Ok(far) = far {
                    join(&accepting, [near, far]);
                }
            }
        });
        Self { port: own, shared }
    }

    /// The port that leads there.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Lets bytes flow like this from now on, also those that are on their way: `there` from the side that connects, and `back` to it.
    pub fn set(&self, there: Flow, back: Flow) {
        let mut state = self.shared.state.lock();
        state.flows = [there, back];
        let flows = state.flows;
        state.connections.retain(|_, connection| {
            let has_hole = (0..2).any(|way| connection.has_lost[way] && flows[way] != Flow::Lost);
            if has_hole {
                connection.close();
            }
            !has_hole
        });
        self.shared.changed.notify_all();
    }

    /// Closes all connections, for both sides; what was on its way is lost. New ones can be made.
    pub fn cut(&self) {
        let mut state = self.shared.state.lock();
        mem::take(&mut state.connections).values().for_each(Connection::close);
        self.shared.changed.notify_all();
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("port", &self.port).finish_non_exhaustive()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.shared.state.lock().is_over = true;
        self.cut();
        // What listens sees the end with the next connection.
        drop(TcpStream::connect(("127.0.0.1", self.port)));
    }
}

/// Carries bytes between the two ends of a new connection, each way in two threads.
fn join(shared: &Arc<Shared>, ends: [TcpStream; 2]) {
    let copies = || ends.iter().map(|end| end.try_clone().expect("a descriptor")).collect::<Vec<_>>();
    let (sources, targets) = (copies(), copies().into_iter().rev());
    let number = {
        let mut state = shared.state.lock();
        state.accepted += 1;
        let number = state.accepted;
        state.connections.insert(number, Connection { ends, has_lost: [false; 2] });
        number
    };
    for (way, (source, target)) in sources.into_iter().zip(targets).enumerate() {
        let (chunks, read) = channel();
        thread::spawn(move || collect(source, &chunks));
        let shared = Arc::clone(shared);
        thread::spawn(move || {
            if shared.carry(number, way, target, &read).is_none() {
                shared.close(number);
            }
        });
    }
}

fn collect(mut source: TcpStream, chunks: &Sender<Chunk>) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = source.read(&mut buffer).unwrap_or(0);
        let chunk = Chunk { bytes: buffer[..length].to_vec(), read: Instant::now() };
        if chunks.send(chunk).is_err() || length == 0 {
            return;
        }
    }
}

impl Shared {
    /// Carries what is read one way; nothing as soon as the connection has ended.
    fn carry(&self, number: u64, way: usize, mut target: TcpStream, read: &Receiver<Chunk>) -> Option<()> {
        for chunk in read {
            if self.arrives(number, way, chunk.read)? {
                if chunk.bytes.is_empty() {
                    return None;
                }
                target.write_all(&chunk.bytes).ok()?;
            }
        }
        Some(())
    }

    /// Waits until what was `read` arrives or is lost; nothing if the connection is closed.
    fn arrives(&self, number: u64, way: usize, read: Instant) -> Option<bool> {
        let mut state = self.state.lock();
        loop {
            let flow = state.flows[way];
            let connection = state.connections.get_mut(&number)?;
            match flow {
                Flow::Passes => return Some(true),
                Flow::Lost => {
                    connection.has_lost[way] = true;
                    return Some(false);
                }
                Flow::Held => state = self.changed.wait(state),
                Flow::Late(delay) if Instant::now() >= read + delay => return Some(true),
                Flow::Late(delay) => state = self.changed.wait_until(state, read + delay).0,
            }
        }
    }

    fn close(&self, number: u64) {
        if let Some(connection) = self.state.lock().connections.remove(&number) {
            connection.close();
        }
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    /// A link, and both ends of a connection over it.
    fn linked() -> (Link, TcpListener, TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let link = Link::to(listener.local_addr().expect("its address").port());
        let (near, far) = connected(&link, &listener);
        (link, listener, near, far)
    }

    fn connected(link: &Link, listener: &TcpListener) -> (TcpStream, TcpStream) {
        let accepted = || link.shared.state.lock().accepted;
        let before = accepted();
        let near = TcpStream::connect(("127.0.0.1", link.port())).expect("connected");
        let (far, _) = listener.accept().expect("connected");
        // Only then does a cut concern it.
        while accepted() == before {
            thread::yield_now();
        }
        (near, far)
    }

    fn says(mut from: &TcpStream, text: &str) {
        from.write_all(text.as_bytes()).expect("sent");
    }

    /// The next bytes, as many as `expected` has; fewer at the end of the connection.
    fn hears(to: &TcpStream, expected: &str) -> String {
        let mut text = String::new();
        // A connection that is closed with bytes on their way to it ends with an error.
        drop(to.take(expected.len() as u64).read_to_string(&mut text));
        text
    }

    #[test]
    fn bytes_pass_both_ways_and_so_does_the_end() {
        let (_link, _listener, near, far) = linked();
        says(&near, "there");
        says(&far, "back");
        assert_eq!((hears(&far, "there"), hears(&near, "back")), ("there".to_owned(), "back".to_owned()));
        drop(near);
        assert_eq!(hears(&far, "?"), "");
    }

    #[test]
    fn what_is_held_arrives_later_and_the_other_way_is_open() {
        let (link, _listener, near, far) = linked();
        link.set(Flow::Held, Flow::Passes);
        says(&near, "one");
        says(&far, "back");
        assert_eq!(hears(&near, "back"), "back");
        drop(near);
        far.set_nonblocking(true).expect("set");
        assert!((&far).read(&mut [0]).is_err(), "neither bytes nor the end");
        far.set_nonblocking(false).expect("set");
        link.set(Flow::Late(Duration::from_millis(1)), Flow::Passes);
        assert_eq!(hears(&far, "one?"), "one");
    }

    #[test]
    fn a_connection_that_has_lost_bytes_is_closed_when_others_would_arrive() {
        let (link, listener, near, far) = linked();
        link.set(Flow::Passes, Flow::Lost);
        says(&far, "lost");
        says(&near, "there");
        assert_eq!(hears(&far, "there"), "there");
        // The link has read what is lost as soon as it has seen the end behind it.
        drop(far);
        while link.shared.state.lock().connections.values().any(|connection| !connection.has_lost[1]) {
            thread::yield_now();
        }
        link.set(Flow::Passes, Flow::Passes);
        assert_eq!(hears(&near, "?"), "");
        let (near, far) = connected(&link, &listener);
        says(&far, "new");
        assert_eq!(hears(&near, "new"), "new");
    }

    #[test]
    fn a_cut_closes_both_sides_whatever_is_held_and_new_connections_can_be_made() {
        let (link, listener, near, far) = linked();
        link.set(Flow::Late(LONG), Flow::Held);
        says(&near, "there");
        says(&far, "back");
        link.cut();
        assert_eq!((hears(&near, "?"), hears(&far, "?")), (String::new(), String::new()));
        link.set(Flow::Passes, Flow::Passes);
        let (near, far) = connected(&link, &listener);
        says(&near, "new");
        assert_eq!(hears(&far, "new"), "new");
    }
}
