import test from 'ava'
import { unusedPort } from '../../cli/installation/ports.ts'
import type { Done, Target } from '../kit/noise/edge-noise-program.ts'
import { noiseProcess } from '../kit/noise/noise-process.ts'
import { assertRatios, timesAlongside } from '../kit/noise/slowdown.ts'
import { testIssuer } from '../kit/servers/https.ts'
import { ask, named } from '../kit/servers/origin.ts'
import { startProxy } from '../kit/servers/proxy.ts'

// How much slower an application answers while another one is flooded. The clients of the flood are on this machine and use its processors.
const blocks = 6
const requestsInBlock = 1000
/** By part of the requests: how many times as long they may take. */
const maxRatios = [
  [0.5, 2],
  [0.95, 5],
] as const

test('an application is answered alongside one that is flooded', async t => {
  t.timeout(600_000)
  const proxy = await startProxy({ EDGE_TLS: 'local' })
  t.teardown(proxy.stop)
  const quiet = await named('quiet')
  t.teardown(quiet.stop)
  const { issue } = await testIssuer()
  const [host, loud] = ['quiet.apps.localhost', 'loud.apps.localhost']
  const originPort = await unusedPort()
  await proxy.edge.setRoute({ host, appId: 'quiet', address: '127.0.0.1', port: quiet.port, version: '1.0' })
  await proxy.edge.setRoute({ host: loud, appId: 'loud', address: '127.0.0.1', port: originPort, version: '1.0' })
  await proxy.edge.setCertificate(await issue('secure.apps.localhost'))
  let failed = 0
  const { port, tlsPort } = proxy
  const noise = noiseProcess<Target, Done>('edge-noise-program', {
    ...{ port, tlsPort, secureHost: 'secure.apps.localhost', host: loud, originPort },
  })
  t.teardown(noise.kill)
  const times = await timesAlongside({
    ...{ noise, blocks, actsInBlock: requestsInBlock, settleMs: 2000 },
    async act() {
      const { status, body } = await ask(proxy.port, host)
      if (status !== 200 || body !== 'quiet') failed++
    },
  })
  const done = await noise.stop()
  t.is(failed, 0)
  assertRatios(t, times, maxRatios)
  t.log(`the noise: ${JSON.stringify(done)}`)
  for (const [kind, count] of Object.entries(done)) t.true(count > 0, kind)
})
