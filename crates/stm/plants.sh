#!/usr/bin/env bash
# Plants one bug after the other into enact-stm (all, or those named), and shows that its models find each.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CARGO_TERM_COLOR=never CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/plants" ENACT_SCHEDULES=3000

all=(
    skip_validation
    forget_the_past
    free_at_once
    sleep_without_looking
    release_before_the_operation
    commit_before_the_dependency
    leave_the_gate_open
    leave_the_clock_to_readers
)
readonly plants=("${@:-${all[@]}}")
readonly models=(cargo test --quiet --package enact-stm --test models)

survivors=()
for plant in "${plants[@]}"; do
    export RUSTFLAGS="--cfg enact_shuttle --cfg plant=\"$plant\""
    "${models[@]}" --no-run
    report=$("${models[@]}" 2>&1) && status=0 || status=$?
    if [ "$status" -ne 0 ] && grep -q '^test result: FAILED' <<<"$report"; then
        echo "$plant: found by $(grep -c '^    [a-z_:]*$' <<<"$report") models"
    else
        survivors+=("$plant")
        echo "$plant: NOT FOUND"
    fi
done
echo "$((${#plants[@]} - ${#survivors[@]})) of ${#plants[@]} planted bugs were found"
[ ${#survivors[@]} -eq 0 ]
