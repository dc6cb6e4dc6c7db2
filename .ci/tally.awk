# Adds up what test runners say they counted; prints "passed failed".
#
#   cargo test   test result: ok. 12 passed; 0 failed; ...
#   node --test  ℹ pass 114 / ℹ fail 0   (# pass 114 without a terminal)
#   playwright     27 passed (3.6m) /   10 failed
#   vitest             Tests  1 failed | 33 passed (34)
#   pytest       ==== 2 failed, 78 passed in 3.2s ====   (the bars are left out with -q)
#   surefire     [INFO] Tests run: 55, Failures: 0, Errors: 0, Skipped: 0   (the sum has no time)
#   our own      layers: 12 passed, 0 failed
#   clients/run  examples                     ok             12 s
#   our sums     tests: 510 passed, 0 failed     replaces what was counted before it

{ gsub(/\033\[[0-9;]*m/, "") }

/^test result: / { passed += number("passed"); failed += number("failed") }
/^(ℹ|#) pass [0-9]+$/ { passed += $3 }
/^(ℹ|#) (fail|cancelled) [0-9]+$/ { failed += $3 }
/^ +[0-9]+ passed \([0-9.]+[a-z]+\)$/ { passed += number("passed") }
/^ +[0-9]+ failed$/ { failed += number("failed") }
/^ +Tests +.*\([0-9]+\)$/ { passed += number("passed"); failed += number("failed") }
/(passed|failed|error|errors)[a-z0-9, ]* in [0-9.]+s/ {
  passed += number("passed"); failed += number("failed") + number("errors?")
}
/Tests run: [0-9]+, Failures: [0-9]+, Errors: [0-9]+, Skipped: [0-9]+$/ {
  gsub(/[^0-9 ]/, ""); runs = $1; bad = $2 + $3; left_out = $4
  passed += runs - bad - left_out; failed += bad
}
/^[a-z-]+: [0-9]+ passed, [0-9]+ failed$/ { passed += $2; failed += $4 }
/^(tests|verify): [0-9]+ passed, [0-9]+ failed$/ { passed = $2 + 0; failed = $4 + 0 }
/^examples.* ok +[0-9]+ s$/ { passed += 1 }
/^examples.* FAILED \([0-9]+\) +[0-9]+ s$/ { failed += 1 }

# The number in front of the word in this line, 0 when it is not there.
function number(word,   text) {
  if (!match($0, "[0-9]+ " word)) return 0
  text = substr($0, RSTART, RLENGTH)
  return text + 0
}

END { print passed + 0, failed + 0 }
