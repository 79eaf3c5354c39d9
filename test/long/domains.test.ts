import test from 'ava'
import { domainPoints, domainSurvives } from '../kit/crash/domain-story.ts'
import { testDomainPlatform } from '../kit/platform/domain-platform.ts'

// Every point of a domain's life at which the worker can die; a choice of them runs in test/crash on every change.
const stage = testDomainPlatform({ worker: false })

for (const point of domainPoints)
  test.serial(
    `a worker that dies at ${point}: the domain ends served, with one certificate and at most two orders`,
    async t => {
      t.timeout(240_000)
      await domainSurvives(t, await stage(), point)
    },
  )
