//! Negotiates the purpose and version of a connection of the TCP protocol.

use security::{Caller, Denial, PresentedKey, Requirement};
use tokio::{
    io::AsyncWriteExt,
    time::{Instant, timeout_at},
};
use wire::tcp_shapes::{Negotiated, TcpHeader, TcpOperation, header_error, not_authorized};

use crate::{
    api_error::ApiError,
    feeds::gone::Gone,
    tcp::{
        connection::TcpConnection,
        messages::{MessageReader, ReadEnd, SEND_TIME_MAX, send},
        worker_session,
    },
    transport::{Reading, Writing},
};

/// A client that accepts none of our versions is disconnected after this many proposals.
const PROPOSALS_MAX: usize = 8;

/// Serves a connection to its end.
pub(crate) async fn serve(accepted: TcpConnection) {
    let TcpConnection { state, connection, mut place, limiter } = accepted;
    // If this fails, a client that vanished silently is noticed later.
    drop(connection.end_when_unacknowledged(SEND_TIME_MAX));
    let peer = connection.peer();
    let (reading, mut writing) = connection.into_halves();
    let mut messages = MessageReader::new(reading);
    let deadline = Instant::now() + state.engine.settings().http.request_head_timeout;
    let client = place.client.clone();
    let caller = |header: &TcpHeader| {
        let presented = header.api_key.as_ref().map(|key| PresentedKey::read(key.text()));
        state.engine.caller(&client, presented.as_ref())
    };
    let negotiating = negotiate(&mut messages, &mut writing, &caller);
    let negotiated = tokio::select! {
        negotiated = timeout_at(deadline, negotiating) => negotiated,
        () = limiter.evicted_when_unused() => return,
        _ = place.stopping.wait_for(|stopping| *stopping) => return,
    };
    if let Ok(Ok(header)) = negotiated
        && header.operation == TcpOperation::Subscription
    {
        let session = worker_session::Session::new(state, (place, peer), header, deadline);
        session.run(messages, &mut writing).await;
    }
    // The session ends whether or not the client receives the message.
    drop(writing.shutdown().await);
}

async fn negotiate(
    messages: &mut MessageReader<Reading>,
    writing: &mut Writing,
    caller: &(dyn Fn(&TcpHeader) -> Caller + Sync),
) -> Result<TcpHeader, Gone> {
    for _ in 0..PROPOSALS_MAX {
        let read = match messages.next().await {
            Ok(message) => TcpHeader::read(&message).map_err(ApiError::from),
            Err(ReadEnd::Broken(error)) => Err(error),
            Err(ReadEnd::Gone) => return Err(Gone),
        };
        let header = match read {
            Ok(header) => header,
            Err(error) => return refuse(writing, &error).await,
        };
        match header.negotiate() {
            Negotiated::Agreed if let Err(denial) = may_begin(&caller(&header), &header) => {
                send(writing, &not_authorized(&header, &denial.to_string())).await?;
                return Err(Gone);
            }
            Negotiated::Agreed => {
                send(writing, &header.agreed()).await?;
                return Ok(header);
            }
            Negotiated::Proposed(version) => send(writing, &header.proposing(version)).await?,
            Negotiated::Refused(error) => return refuse(writing, &error.into()).await,
        }
    }
    Err(Gone)
}

/// Whether the client may do what its header asks for.
fn may_begin(caller: &Caller, header: &TcpHeader) -> Result<(), Denial> {
    let requirement = match header.operation {
        TcpOperation::Subscription => Requirement::Read,
        _ => Requirement::ValidUser,
    };
    caller.check(requirement, header.database.as_deref())
}

async fn refuse(writing: &mut Writing, error: &ApiError) -> Result<TcpHeader, Gone> {
    send(writing, &header_error(error)).await?;
    Err(Gone)
}
