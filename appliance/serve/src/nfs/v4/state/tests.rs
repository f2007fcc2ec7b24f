//! Tests of the state machine alone, with a simulated clock.

use super::*;
use crate::nfs::locks::LockRange;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const LEASE: Millis = 90_000;
const CALLER: Caller = Caller { principal: 0, host: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)) };
const FILE: FileHandle = FileHandle { fs_guid: 1, object: 2, generation: 3 };

fn machine(limits: Limits, may_reclaim: &[&[u8]]) -> State {
    let may_reclaim = may_reclaim.iter().map(|n| n.to_vec()).collect();
    State::new(
        Start { epoch: 7, lease_ms: LEASE, may_reclaim, limits, session_key: [3; 32] },
        Arc::new(LockTable::new(1000)),
    )
}

fn old_client(state: &mut State, name: &[u8]) -> u64 {
    let (id, confirm) = state.set_client_id(name, [1; 8], 0).unwrap();
    state.confirm_client_id(id, confirm, 0).unwrap();
    id
}

fn channel() -> ChannelAttrs {
    ChannelAttrs {
        request_bytes_max: 1 << 20,
        response_bytes_max: 1 << 20,
        cached_bytes_max: 4096,
        operations_max: 16,
        slots: 8,
    }
}

fn new_client(state: &mut State, name: &[u8], verifier: u8) -> (u64, [u8; 16]) {
    let args = ExchangeId { name, verifier: [verifier; 8], update: false, caller: CALLER };
    let answer = state.exchange_id(&args).unwrap();
    let made = state
        .create_session(answer.client, answer.sequence, (channel(), channel()), CALLER, |s| s.id.to_vec())
        .unwrap();
    (answer.client, made.try_into().unwrap())
}

fn ready_client(state: &mut State, name: &[u8]) -> u64 {
    let (id, _) = new_client(state, name, 1);
    state.reclaim_complete(id).unwrap();
    id
}

fn key(client: u64, owner: u8) -> OwnerKey {
    OwnerKey::Open(client, Arc::from([owner]))
}

fn open(state: &mut State, client: u64, owner: u8, access: u32, deny: u32) -> Result<StateId> {
    let (owner, held) = (key(client, owner), Arc::new(()) as Held);
    state.open(&OpenRequest { owner: &owner, file: FILE, access, deny, reclaims: false, held })
}

#[test]
fn the_file_of_a_stale_open_is_released_before_it_is_closed() {
    let mut state = machine(Limits::default(), &[]);
    let client = ready_client(&mut state, b"c");
    let owner = key(client, 1);
    let (kept, held) = (Arc::new(5_u64), |kept: &Arc<u64>| kept.clone() as Held);
    let request = OpenRequest { owner: &owner, file: FILE, access: 3, deny: 0, reclaims: false, held: held(&kept) };
    state.open(&request).unwrap();
    drop(request);
    state.release_opens(|held| held.downcast_ref::<u64>() == Some(&6));
    assert!(state.take_chores().1.is_empty());
    state.release_opens(|held| held.downcast_ref::<u64>() == Some(&5));
    assert_eq!(state.take_chores().1.len(), 1);
    assert_eq!(Arc::strong_count(&kept), 1);
    assert_eq!(state.counts().2, 1, "it is open all the same");
    state.release_opens(|held| held.is::<u64>());
    assert!(state.take_chores().1.is_empty());
}

fn all() -> LockRange {
    LockRange::ALL
}

#[test]
fn a_restarted_client_loses_its_state_and_a_retrying_one_does_not() {
    let mut state = machine(Limits::default(), &[]);
    let (first, session) = new_client(&mut state, b"c", 1);
    state.reclaim_complete(first).unwrap();
    open(&mut state, first, 1, 3, 0).unwrap();
    let again = ExchangeId { name: b"c", verifier: [1; 8], update: false, caller: CALLER };
    let answer = state.exchange_id(&again).unwrap();
    assert!(answer.confirmed && answer.client == first && answer.sequence == 2);
    // Another user may not use its name.
    let other = ExchangeId { caller: Caller { principal: 9, ..CALLER }, ..again };
    assert_eq!(state.exchange_id(&other), Err(Status::CLID_INUSE));
    let (second, _) = new_client(&mut state, b"c", 2);
    assert_ne!(first, second);
    assert!(!state.has_session(&session), "its old session has ended");
    assert_eq!(state.counts(), (1, 1, 0));
}

fn sequence(session: [u8; 16], sequence: u32, host: IpAddr) -> SequenceArgs {
    SequenceArgs { session, host, sequence, slot: 0, cache: false, request_bytes: 100, operations: 1, fingerprint: 5 }
}

/// Regression: any host that knew the ID of a session, which could be guessed, could use its slots
/// and destroy it.
#[test]
fn a_session_belongs_to_the_principal_and_the_hosts_of_its_client() {
    let mut state = machine(Limits::default(), &[]);
    let (client, session) = new_client(&mut state, b"c", 1);
    let elsewhere = Caller { host: [10, 0, 0, 2].into(), ..CALLER };
    let user = Caller { principal: 1000, ..CALLER };
    assert_eq!(state.sequence(&sequence(session, 1, elsewhere.host)), Err(Status::CONN_NOT_BOUND_TO_SESSION));
    assert_eq!(state.destroy_session(&session, elsewhere), Err(Status::CONN_NOT_BOUND_TO_SESSION));
    assert_eq!(state.destroy_session(&session, user), Err(Status::WRONG_CRED));
    assert_eq!(state.bind(&session, Caller { principal: 1000, ..elsewhere }), Err(Status::WRONG_CRED));
    for caller in [elsewhere, user] {
        assert_eq!(state.destroy_client_id(client, caller), Err(Status::WRONG_CRED));
    }
    let mut create =
        |sequence, caller| state.create_session(client, sequence, (channel(), channel()), caller, |s| s.id.to_vec());
    for again in [1, 2] {
        assert_eq!(create(again, elsewhere), Err(Status::STALE_CLIENTID));
    }
    // As pynfs's CSESS10 expects; the ID of the session before is not repeated for others.
    assert_eq!(create(1, user), Err(Status::SEQ_MISORDERED));
    let of_user: [u8; 16] = create(2, user).unwrap().try_into().unwrap();
    assert!(matches!(state.sequence(&sequence(session, 1, CALLER.host)), Ok(SequenceAnswer::Go { .. })));
    state.end_sequence(&session, 0, None);
    // A client ID that is not confirmed yet, as in knfsd.
    let fresh = ExchangeId { name: b"d", verifier: [1; 8], update: false, caller: CALLER };
    let fresh = state.exchange_id(&fresh).unwrap().client;
    let made = state.create_session(fresh, 1, (channel(), channel()), user, |_| vec![]);
    assert_eq!(made, Err(Status::CLID_INUSE));
    for session in [session, of_user] {
        assert_eq!(state.destroy_session(&session, CALLER), Ok(()));
    }
    assert_eq!(state.destroy_client_id(client, CALLER), Ok(()));
}

#[test]
fn a_client_with_many_addresses_uses_its_session_from_all_of_them() {
    let mut state = machine(Limits::default(), &[]);
    let (client, session) = new_client(&mut state, b"c", 1);
    let mut number = 0;
    let mut works = |state: &mut State, host| {
        number += 1;
        assert!(matches!(state.sequence(&sequence(session, number, host)), Ok(SequenceAnswer::Go { .. })), "{host}");
        state.end_sequence(&session, 0, None);
    };
    // Trunking: the client sends EXCHANGE_ID over each address, as Linux does.
    let second = Caller { host: [10, 0, 0, 2].into(), ..CALLER };
    let again = ExchangeId { name: b"c", verifier: [1; 8], update: false, caller: second };
    assert_eq!(state.exchange_id(&again).unwrap().client, client);
    works(&mut state, second.host);
    // The client's address changed, and it binds its new connection.
    let third = Caller { host: [10, 0, 0, 3].into(), ..CALLER };
    assert_eq!(state.bind(&session, third), Ok(()));
    works(&mut state, third.host);
    works(&mut state, CALLER.host);
    // IPv6 hosts change the lower half of their addresses. IPv4-mapped addresses count as IPv4.
    let v6 = |last| IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, last));
    assert_eq!(state.bind(&session, Caller { host: v6(1), ..CALLER }), Ok(()));
    works(&mut state, v6(2));
    works(&mut state, IpAddr::V6(Ipv4Addr::new(10, 0, 0, 3).to_ipv6_mapped()));
    assert_eq!(state.destroy_session(&session, third), Ok(()));
}

#[test]
fn numbers_of_sessions_cannot_be_guessed_from_those_of_others() {
    let mut state = machine(Limits::default(), &[]);
    let secret = |id: [u8; 16]| u64::from_be_bytes(id[8..].try_into().unwrap());
    let ids: Vec<u64> = (0..20).map(|n| secret(new_client(&mut state, &[n], 1).1)).collect();
    assert!(ids.windows(2).all(|pair| pair[0].abs_diff(pair[1]) > 1 << 20), "{ids:x?}");
}

#[test]
fn a_request_is_done_once_and_its_reply_is_given_again() {
    let mut state = machine(Limits::default(), &[]);
    let (client, session) = new_client(&mut state, b"c", 1);
    let args = |sequence, slot| SequenceArgs {
        session,
        host: CALLER.host,
        sequence,
        slot,
        cache: true,
        request_bytes: 100,
        operations: 2,
        fingerprint: 5,
    };
    assert!(matches!(state.sequence(&args(1, 0)), Ok(SequenceAnswer::Go { client: c, .. }) if c == client));
    assert_eq!(state.sequence(&args(1, 0)), Err(Status::DELAY), "it is in progress");
    state.end_sequence(&session, 0, Some(bytes::Bytes::from_static(b"reply")));
    assert_eq!(state.sequence(&args(1, 0)), Ok(SequenceAnswer::Repeat(bytes::Bytes::from_static(b"reply"))));
    assert_eq!(
        state.sequence(&SequenceArgs { fingerprint: 6, ..args(1, 0) }),
        Err(Status::SEQ_FALSE_RETRY),
        "another request that claims to be the same"
    );
    assert_eq!(state.sequence(&args(3, 0)), Err(Status::SEQ_MISORDERED));
    assert_eq!(state.sequence(&args(0, 1)), Err(Status::SEQ_MISORDERED));
    assert_eq!(state.sequence(&args(1, 8)), Err(Status::BADSLOT));
    let long = SequenceArgs { operations: 17, ..args(2, 0) };
    assert_eq!(state.sequence(&long), Err(Status::TOO_MANY_OPS), "and the slot stays as it is");
    assert!(matches!(state.sequence(&args(2, 0)), Ok(SequenceAnswer::Go { .. })));
    state.end_sequence(&session, 0, None);
    assert_eq!(state.sequence(&args(2, 0)), Ok(SequenceAnswer::Uncached { highest_slot: 7 }));
    // CREATE_SESSION has its own slot.
    let repeated = state.create_session(client, 1, (channel(), channel()), CALLER, |_| panic!("not again")).unwrap();
    assert_eq!(repeated, session);
    assert_eq!(
        state.create_session(client, 3, (channel(), channel()), CALLER, |s| s.id.to_vec()),
        Err(Status::SEQ_MISORDERED)
    );
}

#[test]
fn an_owner_of_the_old_version_has_its_requests_done_once() {
    let mut state = machine(Limits::default(), &[]);
    let client = old_client(&mut state, b"c");
    let owner = key(client, 1);
    assert_eq!(state.begin(&owner, 18, 10, true), Ok(Begin::Go));
    assert_eq!(state.begin(&owner, 18, 10, true), Err(Status::DELAY));
    let id = open(&mut state, client, 1, 3, 0).unwrap();
    let reply = Reply { op: 18, status: Status::OK, body: vec![1], handle: None };
    state.end(&owner, 10, reply.clone());
    assert_eq!(state.begin(&owner, 18, 10, true), Ok(Begin::Repeat(reply)));
    assert!(state.must_confirm(&owner));
    assert_eq!(state.check_io(Asker::Any, &id, FILE, IoWant::Read), Err(Status::BAD_STATEID));
    assert_eq!(state.begin(&owner, 20, 11, false), Ok(Begin::Go));
    let id = state.open_confirm(&id, FILE).unwrap();
    state.end(&owner, 11, Reply { op: 20, status: Status::OK, body: vec![], handle: None });
    assert_eq!(state.check_io(Asker::Any, &id, FILE, IoWant::Read), Ok(()));
    assert_eq!(state.begin(&owner, 4, 13, false), Err(Status::BAD_SEQID));
    assert_eq!(state.begin(&owner, 4, 12, false), Ok(Begin::Go));
    let closed = state.close(Asker::Any, &id, FILE).unwrap();
    state.end(&owner, 12, Reply { op: 4, status: Status::OK, body: vec![2], handle: None });
    // A repeated CLOSE still finds its owner; no other operation finds the state.
    assert_eq!(state.owner_of(&closed), Ok(owner.clone()));
    assert!(matches!(state.begin(&owner, 4, 12, false), Ok(Begin::Repeat(r)) if r.body == [2]));
    assert_eq!(state.check_io(Asker::Any, &closed, FILE, IoWant::Read), Err(Status::BAD_STATEID));
    // An owner that is idle for a lease is removed, with the state that it closed.
    state.tick(2 * LEASE);
    assert_eq!((state.owner_of(&closed), state.counts().2), (Err(Status::BAD_STATEID), 0));
}

#[test]
fn an_open_that_was_never_confirmed_did_not_happen() {
    let mut state = machine(Limits::default(), &[]);
    let client = old_client(&mut state, b"c");
    let owner = key(client, 1);
    state.begin(&owner, 18, 10, true).unwrap();
    let id = open(&mut state, client, 1, 3, 3).unwrap();
    state.end(&owner, 10, Reply { op: 18, status: Status::OK, body: vec![], handle: None });
    assert_eq!(state.begin(&owner, 18, 77, true), Ok(Begin::Go));
    assert_eq!(state.owner_of(&id), Err(Status::BAD_STATEID));
}

#[test]
fn reservations_keep_others_out_and_can_be_given_back() {
    let mut state = machine(Limits::default(), &[]);
    let (a, b) = (ready_client(&mut state, b"a"), ready_client(&mut state, b"b"));
    let first = open(&mut state, a, 1, 1, 0).unwrap();
    let wider = open(&mut state, a, 1, 2, 2).unwrap();
    assert_eq!((first.other, wider.seqid), (wider.other, 2));
    assert_eq!(open(&mut state, b, 1, 2, 0), Err(Status::SHARE_DENIED));
    assert_eq!(open(&mut state, b, 1, 1, 1), Err(Status::SHARE_DENIED));
    assert_eq!(state.check_io(Asker::Any, &StateId::ANONYMOUS, FILE, IoWant::Write), Err(Status::LOCKED));
    assert_eq!(state.check_io(Asker::Any, &StateId::ANONYMOUS, FILE, IoWant::Read), Ok(()));
    let asker = Asker::Client(a);
    assert_eq!(state.downgrade(asker, &first, FILE, 1, 0), Err(Status::OLD_STATEID));
    assert_eq!(state.downgrade(asker, &wider, FILE, 2, 0), Err(Status::INVAL), "there was no such open");
    assert_eq!(state.downgrade(Asker::Client(b), &wider, FILE, 1, 0), Err(Status::BAD_STATEID), "not the owner");
    let narrow = state.downgrade(asker, &wider, FILE, 1, 0).unwrap();
    assert_eq!(state.check_io(asker, &narrow, FILE, IoWant::Write), Err(Status::OPENMODE));
    let other = open(&mut state, b, 1, 3, 0).unwrap();
    assert_eq!(state.close(asker, &StateId { seqid: 0, ..narrow }, FILE), Ok(StateId::INVALID));
    state.close(Asker::Client(b), &other, FILE).unwrap();
    let (_, released) = state.take_chores();
    assert_eq!((released.len(), state.counts().2), (1, 0), "the file is released with the last open");
}

#[test]
fn locks_belong_to_their_open_and_to_their_owner() {
    let mut state = machine(Limits::default(), &[]);
    let (a, b) = (ready_client(&mut state, b"a"), ready_client(&mut state, b"b"));
    let (open_a, open_b) = (open(&mut state, a, 1, 3, 0).unwrap(), open(&mut state, b, 1, 1, 0).unwrap());
    let (ask_a, ask_b) = (Asker::Client(a), Asker::Client(b));
    let new = |open| LockWho::New { open, owner: Arc::from(*b"l") };
    let LockAnswer::Locked(lock) = state.lock(ask_a, &new(open_a), FILE, all(), true, false).unwrap() else {
        panic!("no client has it")
    };
    assert_eq!(
        state.lock(ask_b, &new(open_b), FILE, all(), true, false),
        Err(Status::OPENMODE),
        "open for reading only"
    );
    assert!(matches!(state.lock(ask_b, &new(open_b), FILE, all(), false, false), Ok(LockAnswer::Denied(_))));
    assert!(matches!(state.test_lock(b, &Arc::from(*b"l"), FILE, all(), false), Ok(LockAnswer::Denied(_))));
    assert_eq!(state.test_lock(a, &Arc::from(*b"l"), FILE, all(), true), Ok(LockAnswer::Free));
    assert_eq!(state.free_state(ask_a, &lock), Err(Status::LOCKS_HELD));
    let lock = state.unlock(ask_a, &lock, FILE, all()).unwrap();
    assert_eq!(state.test_state(ask_a, &StateId { seqid: 1, ..lock }), Err(Status::OLD_STATEID));
    assert_eq!(state.free_state(ask_a, &lock), Ok(()));
    assert_eq!(state.test_state(ask_a, &lock), Err(Status::BAD_STATEID));
    state.lock(ask_a, &new(open_a), FILE, all(), true, false).unwrap();
    state.close(ask_a, &open_a, FILE).unwrap();
    assert!(matches!(state.lock(ask_b, &new(open_b), FILE, all(), false, false), Ok(LockAnswer::Locked(_))));
}

#[test]
fn an_expired_lease_is_kept_until_another_client_needs_its_state() {
    let mut state = machine(Limits::default(), &[]);
    let (a, b) = (ready_client(&mut state, b"a"), ready_client(&mut state, b"b"));
    let id = open(&mut state, a, 1, 3, 3).unwrap();
    state.tick(LEASE / 2);
    assert_eq!(open(&mut state, b, 1, 1, 0), Err(Status::SHARE_DENIED));
    state.tick(10 * LEASE);
    assert_eq!(state.test_state(Asker::Client(a), &id), Ok(()), "no recall was sent");
    open(&mut state, b, 1, 1, 0).unwrap();
    assert_eq!(state.test_state(Asker::Client(a), &id), Err(Status::EXPIRED));
    assert_eq!(state.counts().0, 1);
    // After a day, the client is removed in any case.
    state.tick(10 * LEASE + 25 * 60 * 60 * 1000);
    assert_eq!(state.counts(), (0, 0, 0));
}

#[test]
fn locks_of_an_expired_client_yield_to_those_of_version_3() {
    let mut state = machine(Limits::default(), &[]);
    let a = ready_client(&mut state, b"a");
    let id = open(&mut state, a, 1, 3, 0).unwrap();
    let who = LockWho::New { open: id, owner: Arc::from(*b"l") };
    state.lock(Asker::Client(a), &who, FILE, all(), true, false).unwrap();
    let nlm = LockOwner::Nlm { host: Arc::from(*b"h"), owner: Arc::from(*b"o"), process: 1 };
    let locks = state.locks.clone();
    assert!(locks.lock(FILE, &nlm, all(), true).is_err());
    state.tick(LOOK_MS);
    assert!(locks.lock(FILE, &nlm, all(), true).is_err(), "its lease is good");
    state.tick(2 * LEASE);
    assert!(locks.lock(FILE, &nlm, all(), true).is_ok());
}

#[test]
fn after_a_restart_only_previous_holders_may_reclaim_and_others_wait() {
    let mut state = machine(Limits::default(), &[b"known"]);
    let (known, _) = new_client(&mut state, b"known", 1);
    let (other, _) = new_client(&mut state, b"other", 1);
    let (held, owner) = (|| Arc::new(()) as Held, key(known, 1));
    let others = key(other, 1);
    let reclaim = |owner| OpenRequest { owner, file: FILE, access: 3, deny: 0, reclaims: true, held: held() };
    assert_eq!(open(&mut state, known, 1, 3, 0), Err(Status::GRACE));
    let id = state.open(&reclaim(&owner)).unwrap();
    let who = LockWho::New { open: id, owner: Arc::from(*b"l") };
    assert_eq!(state.lock(Asker::Client(known), &who, FILE, all(), true, false), Err(Status::GRACE));
    assert!(matches!(state.lock(Asker::Client(known), &who, FILE, all(), true, true), Ok(LockAnswer::Locked(_))));
    assert_eq!(state.open(&reclaim(&others)), Err(Status::NO_GRACE));
    assert_eq!(state.check_io(Asker::Any, &StateId::ANONYMOUS, FILE, IoWant::Read), Err(Status::GRACE));
    state.reclaim_complete(known).unwrap();
    assert_eq!(state.reclaim_complete(known), Err(Status::COMPLETE_ALREADY));
    // No client is left that could reclaim, so the grace period is over.
    assert!(!state.in_grace());
    assert_eq!(state.open(&reclaim(&owner)), Err(Status::NO_GRACE));
    assert_eq!(open(&mut state, other, 1, 1, 0), Err(Status::GRACE), "before RECLAIM_COMPLETE");
    state.reclaim_complete(other).unwrap();
    open(&mut state, other, 1, 1, 0).unwrap();
    let (chores, _) = state.take_chores();
    assert_eq!(chores, [Chore::Record(b"known".to_vec()), Chore::Record(b"other".to_vec())]);
}

/// Regression: Linux's 4.0 client lost its open files when the server restarted, because it was
/// asked to confirm reclaimed opens.
#[test]
fn reclaims_of_4_0_need_no_confirmation_and_can_be_repeated() {
    let mut state = machine(Limits::default(), &[b"known"]);
    let owner = key(old_client(&mut state, b"known"), 1);
    let request =
        OpenRequest { owner: &owner, file: FILE, access: 3, deny: 0, reclaims: true, held: Arc::new(()) as Held };
    assert_eq!(state.begin(&owner, 18, 1, true), Ok(Begin::Go));
    let id = state.open(&request).unwrap();
    assert!(!state.must_confirm(&owner));
    assert_eq!(state.open_confirm(&id, FILE), Err(Status::BAD_STATEID), "there is nothing to confirm");
    state.check_io(Asker::Any, &id, FILE, IoWant::Write).unwrap();
    // The next server knows that the client held state.
    assert_eq!(state.take_chores().0, [Chore::Record(b"known".to_vec())]);
}

#[test]
fn while_version_3_takes_back_its_locks_version_4_opens_and_reads_and_gets_no_locks() {
    let mut state = machine(Limits::default(), &[]);
    let a = ready_client(&mut state, b"a");
    state.wait_for_v3(true);
    let id = open(&mut state, a, 1, 3, 0).unwrap();
    state.check_io(Asker::Client(a), &id, FILE, IoWant::Read).unwrap();
    let (owner, who) = (Arc::from(*b"l"), LockWho::New { open: id, owner: Arc::from(*b"l") });
    assert_eq!(state.lock(Asker::Client(a), &who, FILE, all(), true, false), Err(Status::GRACE));
    assert_eq!(state.test_lock(a, &owner, FILE, all(), true), Err(Status::GRACE));
    state.wait_for_v3(false);
    assert!(matches!(state.lock(Asker::Client(a), &who, FILE, all(), true, false), Ok(LockAnswer::Locked(_))));
}

/// Regression: Linux numbers lock owners and gives the number of one whose lock was denied to the
/// next process, which then got the cached denial forever.
#[test]
fn an_owner_whose_lock_was_refused_may_ask_again_from_the_beginning() {
    let mut state = machine(Limits::default(), &[]);
    let client = old_client(&mut state, b"a");
    let (owner, lock) = (OwnerKey::Lock(client, Arc::from(*b"l")), 12);
    let refused = Reply { op: lock, status: Status::DENIED, body: vec![1], handle: None };
    assert_eq!(state.begin(&owner, lock, 0, true), Ok(Begin::Go));
    state.end(&owner, 0, refused.clone());
    assert_eq!(state.begin(&owner, lock, 0, true), Ok(Begin::Go));
    // If the owner holds a lock elsewhere, it has a sequence in which each request is executed
    // once.
    state.owner_uses(&owner, true);
    state.end(&owner, 0, refused.clone());
    assert_eq!(state.begin(&owner, lock, 0, true), Ok(Begin::Repeat(refused)));
    assert_eq!(state.begin(&owner, lock, 1, true), Ok(Begin::Go));
}

#[test]
fn a_client_that_missed_the_grace_period_may_not_reclaim_after_the_next_restart() {
    let mut state = machine(Limits::default(), &[b"gone"]);
    assert!(state.in_grace());
    state.tick(LEASE + LOOK_MS);
    assert!(!state.in_grace());
    assert_eq!(state.take_chores().0, [Chore::Forget(b"gone".to_vec())]);
}

#[test]
fn a_full_server_refuses_and_makes_room_by_ending_whose_lease_ran_out() {
    let limits = Limits { clients: 2, sessions: 2, slots: 10, owners: 3, states: 2 };
    let mut state = machine(limits, &[]);
    let (a, b) = (ready_client(&mut state, b"a"), ready_client(&mut state, b"b"));
    let third = ExchangeId { name: b"c", verifier: [0; 8], update: false, caller: CALLER };
    assert_eq!(state.exchange_id(&third), Err(Status::DELAY));
    let refused = |state: &mut State| -> Vec<Refusal> {
        let refused = |chore| if let Chore::Refuse(table) = chore { Some(table) } else { None };
        state.take_chores().0.into_iter().filter_map(refused).collect()
    };
    assert_eq!(refused(&mut state), [Refusal::Clients]);
    open(&mut state, a, 1, 1, 0).unwrap();
    open(&mut state, b, 1, 1, 0).unwrap();
    assert_eq!(open(&mut state, a, 2, 1, 0), Err(Status::RESOURCE));
    assert_eq!(refused(&mut state), [Refusal::Opens]);
    state.tick(LEASE + 1);
    state.renew_client(a);
    open(&mut state, a, 2, 1, 0).unwrap();
    assert_eq!(state.counts().0, 1, "b's lock was dropped");
    state.exchange_id(&third).unwrap();
}

#[test]
fn state_ids_of_another_run_and_unknown_ones_are_distinguished() {
    let mut state = machine(Limits::default(), &[]);
    let a = ready_client(&mut state, b"a");
    let id = open(&mut state, a, 1, 1, 0).unwrap();
    let mut older = id;
    older.other[3] ^= 1;
    let mut unknown = id;
    unknown.other[11] ^= 0x40;
    let test = |state: &State, id| state.test_state(Asker::Client(a), &id);
    assert_eq!(test(&state, older), Err(Status::STALE_STATEID));
    assert_eq!(test(&state, unknown), Err(Status::BAD_STATEID));
    assert_eq!(test(&state, StateId::ANONYMOUS), Err(Status::BAD_STATEID));
    assert_eq!(test(&state, StateId { seqid: 9, ..id }), Err(Status::BAD_STATEID));
    assert_eq!(test(&state, StateId { seqid: 0, ..id }), Ok(()));
}
