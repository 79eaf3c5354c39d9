import test from 'ava'
import { domainSurvives } from '../../kit/crash/domain-story.ts'
import { testDomainPlatform } from '../../kit/platform/domain-platform.ts'

// Some points of a domain's life; all of them are in test/long/domains.test.ts.
const stage = testDomainPlatform({ worker: false })

for (const point of ['domains.finalizeOrder:after', 'authority.order:after', 'edge.setCertificate:after'])
  test.serial(
    `a worker that dies at ${point}: the domain ends served, with one certificate and at most two orders`,
    async t => {
      t.timeout(240_000)
      await domainSurvives(t, await stage(), point)
    },
  )
