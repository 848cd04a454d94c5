#!/usr/bin/env bash
# Puts one bug after the other into enact-stm (all, or those named), and shows that its models find each: with shuttle or,
# what only a rare schedule brings about, with loom. Takes ten minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CARGO_TERM_COLOR=never CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/bugs"
export ENACT_SCHEDULES=3000 LOOM_MAX_PREEMPTIONS=2

all=(
    skip_validation
    forget_the_past
    free_at_once
    sleep_without_looking
    release_before_the_operation
    commit_before_the_dependency
    leave_the_serial_lock_open
    open_the_serial_lock_in_silence
    barge_past_commits
    leave_a_free_lock_in_silence
    overlook_circles
    count_operations_before_draining
    wait_for_tasks_that_do_not_come
    leave_the_clock_to_readers
    forget_who_is_gone
    read_links_of_any_epoch
    publish_links_without_a_version
)
readonly bugs=("${@:-${all[@]}}")
readonly models=(cargo test --quiet --package enact-stm --test models)

# Whether the models fail with a planted bug under a checker; a build that fails finds nothing.
is_found() {
    local report
    export RUSTFLAGS="--cfg enact_$2 --cfg planted=\"$1\""
    "${models[@]}" --no-run
    # loom ends the process at the first failure of some kinds, so that no result is printed.
    ! report=$("${models[@]}" 2>&1) && grep -qE '^test result: FAILED|panicked at' <<<"$report"
}

survivors=()
for bug in "${bugs[@]}"; do
    if is_found "$bug" shuttle; then
        echo "$bug: found by shuttle"
    elif is_found "$bug" loom; then
        echo "$bug: found by loom"
    else
        survivors+=("$bug")
        echo "$bug: NOT FOUND"
    fi
done
echo "$((${#bugs[@]} - ${#survivors[@]})) of ${#bugs[@]} planted bugs were found"
[ ${#survivors[@]} -eq 0 ]
