import test from 'ava'
import { type DomainVictim, domainStage, domainSurvives } from '../../kit/crash/domain-story.ts'

// Some points of a domain's life; all of them, for everything that can end there, are in test/long/domains.test.ts.
const stage = domainStage()

const cases: [DomainVictim, string][] = [
  ['worker', 'domains.finalizeOrder:after'],
  ['server of Postgres', 'domains.collectCertificate:after'],
  ['line to Postgres', 'authority.order:after'],
  ['server of Temporal', 'domains.answerChallenge:after'],
  ['server of Temporal with its data', 'authority.finalize:after'],
]
for (const [victim, point] of cases)
  test.serial(
    `the ${victim} ends at ${point}: the domain is served in the end, with one certificate and at most two orders`,
    async t => {
      t.timeout(240_000)
      await domainSurvives(t, await stage(), victim, point)
    },
  )
