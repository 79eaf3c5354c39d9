import { setTimeout as sleep } from 'node:timers/promises'
import test from 'ava'
import { unusedPort } from '../../cli/installation/ports.ts'
import type { Done, Target } from '../kit/noise/edge-noise-program.ts'
import { noiseProcess } from '../kit/noise/noise-process.ts'
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

test('an application is answered beside one that is flooded', async t => {
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
  const measure = async () => {
    const times: number[] = []
    for (let n = 0; n < requestsInBlock; n++) {
      const at = performance.now()
      const { status, body } = await ask(proxy.port, host)
      times.push(performance.now() - at)
      if (status !== 200 || body !== 'quiet') failed++
    }
    return times
  }
  await measure()
  const { port, tlsPort } = proxy
  const noise = noiseProcess<Target, Done>('edge-noise-program', {
    ...{ port, tlsPort, secureHost: 'secure.apps.localhost', host: loud, originPort },
  })
  t.teardown(noise.kill)
  const alone: number[] = []
  const beside: number[] = []
  for (let n = 0; n < blocks; n++) {
    noise.pause()
    await sleep(2000)
    alone.push(...(await measure()))
    noise.goOn()
    await sleep(2000)
    beside.push(...(await measure()))
  }
  const done = await noise.stop()
  t.is(failed, 0)
  const at = (times: number[], share: number) => times.toSorted((a, b) => a - b)[Math.floor(times.length * share)]!
  for (const [share, max] of maxRatios) {
    const ratio = at(beside, share) / at(alone, share)
    const figures = `${at(alone, share).toFixed(2)} ms alone, ${at(beside, share).toFixed(2)} ms beside`
    t.log(`p${share * 100}: ${figures}: ratio ${ratio.toFixed(2)}`)
    t.true(ratio <= max, `p${share * 100}: ratio ${ratio.toFixed(2)}`)
  }
  t.log(`the noise: ${JSON.stringify(done)}`)
  for (const [kind, count] of Object.entries(done)) t.true(count > 0, kind)
})
