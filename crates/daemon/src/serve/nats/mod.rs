//! The API on the bus: the same routes and the same answers as on the socket, for whoever the server lets ask. The daemon
//! listens to its own name and to the group of its name, and does no more than its own settings say, whatever comes.
//!
//! A server that is away slows nothing: the connection comes back by itself, and everything here waits in its own tasks.

mod answers;
mod events;
mod request;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agentctl_hosts::nats::dial::{Manner, dial};
use agentctl_hosts::nats::message::{RosterEntry, is_nonce};
use agentctl_hosts::nats::subjects::{self, Asked, Tree};
use agentctl_hosts::nats::{NatsSettings, Serve, message, roster};
use agentctl_hosts::{Greeting, HostName};
use async_nats::{Client, Message};
use axum::Router;
use futures_util::StreamExt;
use futures_util::stream::{SelectAll, select_all};
use tokio::sync::{Notify, Semaphore};

use self::answers::Answers;
use crate::serve::server;
use crate::settings::BusSettings;
use crate::shared::{Phase, Shared};

/// How many requests are answered at once, and how many may wait for that.
const AT_ONCE: usize = 16;
const MOST_WAITING: usize = 512;
/// How often answers that nobody asked for to their end are put away.
const SWEEP: Duration = Duration::from_secs(30);

/// How long the first connection may take before it is asked why there is none.
const UNTIL_EXPLAINED: Duration = Duration::from_secs(2);

/// What the client says when it has come to a server.
const CONNECTED: &str = "connected";

/// What every request needs.
struct Room {
    shared: Arc<Shared>,
    client: Client,
    router: Router,
    name: HostName,
    instance: String,
    answers: Answers,
    /// For those that are being answered.
    work: Semaphore,
    /// For those and the ones that wait.
    queue: Arc<Semaphore>,
}

/// Serves the bus until the daemon ends, if the settings say so.
pub(crate) async fn serve(shared: Arc<Shared>) {
    let Some(BusSettings { nats, instance }) = shared.settings.bus() else { return };
    if nats.serve == Serve::Off {
        return;
    }
    let connected = Arc::new(Notify::new());
    let has_connected = Arc::new(AtomicBool::new(false));
    let (woken, came, log) = (connected.clone(), has_connected.clone(), shared.log.clone());
    let last = Mutex::new(String::new());
    let tell = move |words: &str| {
        // A right that is missing is told by the server at every try, and here once.
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last != words {
            log.say(&format!("nats: {words}"));
            words.clone_into(&mut last);
        }
        if words == CONNECTED {
            came.store(true, Ordering::Relaxed);
            woken.notify_one();
        }
    };
    let manner = Manner { user: &nats.name, stays: true, tell: Some(Arc::new(tell)) };
    let client = match dial(&nats, manner).await {
        Ok((client, _)) => client,
        Err(failure) => {
            let hint = failure.hint.as_deref().unwrap_or_default();
            shared.log.say(&format!("the bus is not served: {failure}; {hint}"));
            return;
        }
    };
    shared.log.say(&format!("serves the bus of {} as {}, to {}", nats.url, nats.name, nats.serve.as_str()));
    let room = Arc::new(Room {
        router: server::router(&shared),
        name: nats.name.clone(),
        instance,
        answers: Answers::default(),
        work: Semaphore::new(AT_ONCE),
        queue: Arc::new(Semaphore::new(MOST_WAITING)),
        client,
        shared: shared.clone(),
    });
    let mut phase = shared.phase.subscribe();
    let served = async {
        let heard = room.listen(&nats).await;
        match heard {
            Err(error) => shared.log.say(&format!("the bus is not served: {error}")),
            Ok(heard) => {
                tokio::join!(
                    room.answer_all(heard),
                    events::publish(&room),
                    room.register(&nats, &connected),
                    room.sweep(),
                    room.explain(&nats, &has_connected),
                );
            }
        }
    };
    tokio::select! {
        () = served => {}
        _ = phase.wait_for(|phase| *phase != Phase::Serving) => {}
    }
}

impl Room {
    /// Listens to this host's name, and to its group. Of several daemons that call themselves the same, one gets each
    /// request to the name; every one of them hears what is asked of all, so that the asker learns of it.
    async fn listen(
        &self,
        nats: &NatsSettings,
    ) -> Result<SelectAll<async_nats::Subscriber>, async_nats::SubscribeError> {
        let own = self.name.to_string();
        let group = subjects::fan_out(subjects::bucket(&self.name));
        let mut heard = vec![
            self.client.queue_subscribe(Tree::Read.served(&self.name), own.clone()).await?,
            self.client.queue_subscribe(group, self.instance.clone()).await?,
        ];
        if nats.serve == Serve::Act {
            heard.push(self.client.queue_subscribe(Tree::Act.served(&self.name), own).await?);
        }
        Ok(select_all(heard))
    }

    async fn answer_all(self: &Arc<Self>, mut heard: SelectAll<async_nats::Subscriber>) {
        while let Some(message) = heard.next().await {
            // Whoever comes when too many wait is not answered, and learns it by the deadline.
            let Ok(place) = self.queue.clone().try_acquire_owned() else { continue };
            let room = self.clone();
            tokio::spawn(async move {
                room.answer(message).await;
                drop(place);
            });
        }
    }

    async fn answer(&self, message: Message) {
        // Read anew each time: what the file takes back is taken back at once.
        let Some(nats) = self.shared.settings.bus().map(|bus| bus.nats) else { return };
        if nats.serve == Serve::Off {
            return;
        }
        let is_act = message.subject.starts_with("agentctl.act.");
        let rights =
            server::BusRights { acts: is_act && nats.serve == Serve::Act, allows_bypass: nats.allows_bypass };
        let Message { subject, reply, payload, .. } = message;
        let (answer, to) = if subject.starts_with("agentctl.read.all.") {
            let Ok((head, _)) = message::decode::<message::RequestHead>(&payload) else { return };
            let asker = head.asker.as_deref().and_then(|asker| HostName::parse(asker).ok());
            let nonce = head.nonce.clone().filter(|nonce| is_nonce(nonce));
            let (Some(asker), Some(nonce)) = (asker, nonce) else { return };
            let to = subjects::answer(&self.name, &asker, &nonce);
            (self.request(head, &[], server::BusRights { acts: false, ..rights }).await, to)
        } else {
            let Some(reply) = reply else { return };
            let answer = match subjects::asked(&subject) {
                None => return,
                Some(Asked::Hello) => self.hello(),
                Some(Asked::Part) => self.part(&payload).await,
                Some(Asked::Request) => match message::decode(&payload) {
                    Ok((head, body)) => self.request(head, body, rights).await,
                    Err(why) => self.problem(400, "usage", &why),
                },
            };
            (answer, reply.to_string())
        };
        if let Err(error) = self.client.publish(to, answer.into()).await {
            self.shared.log.say(&format!("nats: an answer could not be sent: {error}"));
        }
    }

    fn hello(&self) -> Vec<u8> {
        let greeting = Greeting {
            version: self.shared.version.clone(),
            host: self.shared.host.clone(),
            instance: self.instance.clone(),
            caller: None,
        };
        self.whole(200, &serde_json::to_vec(&greeting).unwrap_or_default())
    }

    /// Writes this host into the roster, and does so again after every connection.
    async fn register(&self, nats: &NatsSettings, connected: &Notify) {
        let entry =
            RosterEntry { version: self.shared.version.clone(), serve: nats.serve.as_str().to_owned() };
        loop {
            let (subject, value) = roster::registration(&self.name, &entry);
            if let Err(error) = self.client.request(subject, value.into()).await
                && nats.hosts.is_none()
            {
                let words = "this host could not write itself into the roster";
                self.shared.log.say(&format!("nats: {words}: {error}; `agentctl hosts init` makes one"));
            }
            connected.notified().await;
        }
    }

    /// Says why no server lets this host in. The client that tries again and again says only that it failed.
    async fn explain(&self, nats: &NatsSettings, has_connected: &AtomicBool) {
        tokio::time::sleep(UNTIL_EXPLAINED).await;
        if has_connected.load(Ordering::Relaxed) {
            return;
        }
        if let Err(failure) = dial(nats, Manner { user: &nats.name, stays: false, tell: None }).await {
            let hint = failure.hint.as_deref().unwrap_or_default();
            self.shared.log.say(&format!("nats: {failure}; {hint}; it is tried again"));
        }
    }

    async fn sweep(&self) {
        loop {
            tokio::time::sleep(SWEEP).await;
            self.answers.sweep();
        }
    }
}
