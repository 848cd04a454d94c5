#!/usr/bin/env bash
# Puts one bug after the other into enact-stm (all, or those named), and shows that its models find each: with shuttle or,
# what only a rare schedule brings about, with loom. Takes half an hour.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CARGO_TERM_COLOR=never
CARGO_TARGET_DIR="$(realpath -m "${CARGO_TARGET_DIR:-target}")/bugs"
export CARGO_TARGET_DIR ENACT_SCHEDULES=3000 LOOM_MAX_PREEMPTIONS=2

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

# Builds a bug into the crates of the workspace and into no other, so that those are built once for each checker.
plant_bug() {
    export RUSTFLAGS="--cfg enact_$2" RUSTC_WORKSPACE_WRAPPER="$CARGO_TARGET_DIR/with-$1"
    mkdir -p "$CARGO_TARGET_DIR"
    printf '#!/bin/sh\nexec "$@" --cfg planted=\\"%s\\"\n' "$1" >"$RUSTC_WORKSPACE_WRAPPER"
    chmod +x "$RUSTC_WORKSPACE_WRAPPER"
}

# Prints the first model that fails with a planted bug under a checker. Each runs in a process of its own, since a failure
# leaves the state that transactions share in pieces. One that does not end in five minutes has found nothing.
finder() {
    local programs program model report
    plant_bug "$1" "$2"
    programs=$(cargo test --profile library --package enact-stm --test models --no-run 2>&1) || { echo "$programs" >&2; exit 1; }
    program=$(sed -n 's/^  Executable .*(\(.*\))$/\1/p' <<<"$programs")
    for model in $("$program" --list | sed -n 's/: test$//p'); do
        # loom ends the process at the first failure of some kinds, so that no result is printed.
        if ! report=$(timeout 300 "$program" --exact "$model" 2>&1) &&
            grep -qE '^test result: FAILED|panicked at' <<<"$report"; then
            echo "$model under $2"
            return
        fi
    done
}

survivors=()
for bug in "${bugs[@]}"; do
    found=$(finder "$bug" shuttle)
    [ -n "$found" ] || found=$(finder "$bug" loom)
    if [ -n "$found" ]; then
        echo "$bug: found by $found"
    else
        survivors+=("$bug")
        echo "$bug: NOT FOUND"
    fi
done
echo "$((${#bugs[@]} - ${#survivors[@]})) of ${#bugs[@]} planted bugs were found"
[ ${#survivors[@]} -eq 0 ]
