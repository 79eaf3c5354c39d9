import test from 'ava'
import { domainPoints, domainStage, domainSurvives, domainVictims } from '../kit/crash/domain-story.ts'

// Everything that can end at every point of a domain's life; a choice runs in test/crash on every change.
const stage = domainStage()

for (const victim of domainVictims)
  for (const point of domainPoints)
    test.serial(
      `the ${victim} ends at ${point}: the domain is served in the end, with one certificate and at most two orders`,
      async t => {
        t.timeout(240_000)
        await domainSurvives(t, await stage(), victim, point)
      },
    )
