//! SIGTERM and SIGINT: the first asks the shards to stop, the second ends the process at once.
//!
//! The thread that started the shards waits here for both signals and ends of shards, through one socket pair: the
//! handlers of `signal-hook` write to it, and so does every shard that ends.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};

/// Exit code of a process that was told twice.
const EXIT_CODE_FORCED: i32 = 130;

/// What the starting thread waits for.
pub(super) enum Event {
    /// SIGTERM or SIGINT.
    Signal,
    /// A shard's thread is about to end.
    ShardEnded,
}

/// Tells the starting thread that a shard ends.
pub(super) struct EndSender(UnixStream);

const SHARD_ENDED: u8 = b'E';

impl EndSender {
    pub(super) fn send(mut self) {
        // The reader outlives all shards; nothing to do if not.
        self.0.write_all(&[SHARD_ENDED]).unwrap_or(());
    }
}

/// The receiving end, with the signal handlers it installed; dropping it removes them.
pub(super) struct Events {
    reader: UnixStream,
    writer: UnixStream,
    handlers: Vec<SigId>,
}

impl Events {
    pub(super) fn new(signals: bool) -> io::Result<Self> {
        let (reader, writer) = UnixStream::pair()?;
        let mut events = Self {
            reader,
            writer,
            handlers: Vec::new(),
        };
        if signals {
            events.install()?;
        }
        Ok(events)
    }

    fn install(&mut self) -> io::Result<()> {
        let told = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            // The order matters: the first signal finds the flag down and raises it.
            let forced = signal_hook::flag::register_conditional_shutdown(
                signal,
                EXIT_CODE_FORCED,
                Arc::clone(&told),
            )?;
            self.handlers.push(forced);
            let raised = signal_hook::flag::register(signal, Arc::clone(&told))?;
            self.handlers.push(raised);
            let sent = signal_hook::low_level::pipe::register(signal, self.writer.try_clone()?)?;
            self.handlers.push(sent);
        }
        Ok(())
    }

    pub(super) fn end_sender(&self) -> io::Result<EndSender> {
        Ok(EndSender(self.writer.try_clone()?))
    }

    /// Blocks until the next event.
    pub(super) fn next(&mut self) -> io::Result<Event> {
        let mut byte = [0];
        loop {
            match self.reader.read_exact(&mut byte) {
                Ok(()) if byte[0] == SHARD_ENDED => return Ok(Event::ShardEnded),
                Ok(()) => return Ok(Event::Signal),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        for handler in self.handlers.drain(..) {
            signal_hook::low_level::unregister(handler);
        }
    }
}
