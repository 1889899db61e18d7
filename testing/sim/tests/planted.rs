//! A server that is broken in one way is found out, each time by the rule it breaks and without the comparison with the log: proof that the
//! checker can fail.

use sim::{Plant, Rule, run_planted};

/// Seeds after which a planted fault counts as not found. Most are found by the first few; that a sync is tried again
/// seldom loses what was acknowledged.
const SEEDS_MAX: u64 = 600;

/// Some seed finds the fault, as one of these rules broken.
fn is_found(plant: Plant, as_rules: &[Rule]) {
    let mut others = Vec::new();
    for seed in 0..SEEDS_MAX {
        let outcome = run_planted(seed, Some(plant));
        if outcome.violations.iter().any(|violation| as_rules.contains(&violation.rule)) {
            return;
        }
        others.extend(outcome.violations.into_iter().map(|violation| violation.to_string()));
    }
    panic!("{plant:?} is not found in {SEEDS_MAX} seeds as {as_rules:?}, but {:?}", others.first());
}

#[test]
fn a_disk_that_ignores_syncs_loses_acknowledged_messages() {
    is_found(Plant::SyncIgnored, &[Rule::AckedLost]);
}

#[test]
fn a_failed_sync_that_is_tried_again_loses_acknowledged_messages() {
    is_found(Plant::SyncRetried, &[Rule::AckedLost, Rule::SequenceReused]);
}

#[test]
fn files_that_a_start_believes_although_no_sync_confirmed_them_are_missed() {
    is_found(Plant::FilesBelieved, &[Rule::AckedLost, Rule::UncausedDamage]);
}

#[test]
fn an_acknowledgement_before_the_log_is_written_is_broken() {
    is_found(Plant::AckBeforePersisted, &[Rule::AckedLost]);
}

#[test]
fn sequences_given_before_the_log_is_written_come_again() {
    is_found(Plant::AckBeforePersisted, &[Rule::SequenceReused]);
}

#[test]
fn a_log_released_before_the_checkpoint_is_on_disk_is_missed() {
    is_found(Plant::ReleasedEarly, &[Rule::AckedLost, Rule::UncausedDamage]);
}

#[test]
fn a_checkpoint_that_was_never_written_is_missed() {
    is_found(Plant::JobSkipped, &[Rule::AckedLost, Rule::UncausedDamage]);
}

#[test]
fn the_last_entry_of_the_log_is_missed() {
    is_found(Plant::TailForgotten, &[Rule::AckedLost]);
}

#[test]
fn removals_that_are_not_replayed_bring_messages_back() {
    is_found(Plant::RemovalsForgotten, &[Rule::Returned]);
}

#[test]
fn messages_that_nobody_needs_and_that_stay_are_noticed() {
    is_found(Plant::DoneKept, &[Rule::Lingers]);
}

#[test]
fn a_deleted_stream_that_comes_back_is_noticed() {
    is_found(Plant::StreamDeleteForgotten, &[Rule::Catalogue]);
}

#[test]
fn ids_that_a_restart_forgets_are_stored_twice() {
    is_found(Plant::IdsForgotten, &[Rule::Dedupe]);
}

#[test]
fn a_confirmation_before_the_log_is_written_is_broken_by_a_redelivery() {
    is_found(Plant::ConfirmEarly, &[Rule::AckForgotten]);
}

#[test]
fn a_confirmation_before_the_log_is_written_leaves_the_floor_behind() {
    is_found(Plant::ConfirmEarly, &[Rule::FloorBack]);
}

#[test]
fn consumers_of_an_old_checkpoint_are_noticed() {
    is_found(Plant::ConsumersForgotten, &[Rule::FloorBack, Rule::AckForgotten]);
}

#[test]
fn damage_that_nobody_is_told_of_is_noticed() {
    is_found(Plant::DamageUntold, &[Rule::SilentDamage]);
}

#[test]
fn damage_that_stops_other_streams_is_noticed() {
    is_found(Plant::DamageStopsAll, &[Rule::OthersStopped]);
}

#[test]
fn a_wrong_number_of_pending_messages_is_noticed() {
    is_found(Plant::PendingWrong, &[Rule::Pending]);
}
