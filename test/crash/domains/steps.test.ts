import test from 'ava'
import { type DomainVictim, domainSurvives } from '../../kit/crash/domain-story.ts'
import { testDomainPlatform } from '../../kit/platform/domain-platform.ts'
import { testDatabase } from '../../kit/servers/database.ts'

// Some points of a domain's life; all of them, for everything that can end there, are in test/long/domains.test.ts.
const stage = testDomainPlatform({ worker: false, database: () => testDatabase({ durable: true }) })

const cases: [DomainVictim, string][] = [
  ['worker', 'domains.finalizeOrder:after'],
  ['server of Postgres', 'domains.collectCertificate:after'],
  ['line to Postgres', 'authority.order:after'],
]
for (const [victim, point] of cases)
  test.serial(
    `the ${victim} ends at ${point}: the domain is served in the end, with one certificate and at most two orders`,
    async t => {
      t.timeout(240_000)
      await domainSurvives(t, await stage(), victim, point)
    },
  )
