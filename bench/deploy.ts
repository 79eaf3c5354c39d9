import { randomBytes } from 'node:crypto'
import { untilAnswers } from './answer.ts'
import { bareDeploy, floorNetwork } from './deploy-floor.docker.ts'
import { startPlatform, summary } from './platform.ts'
import { zipOf } from './zip.ts'

/**
 * From POST /v2/apps to the first right answer over the proxy, beside the floor: the same program in a container made with bare
 * engine calls. Both in turn, in one run, on one machine; a host that has deployed before. Goal: floor + 400 ms at the median.
 */
const rounds = Number(process.argv[2] ?? 15)

const platform = await startPlatform()
const network = await floorNetwork()
try {
  const ours: number[] = []
  const floor: number[] = []
  for (let round = -2; round < rounds; round++) {
    const text = `hello ${randomBytes(6).toString('hex')}`
    const program = `require('node:http').createServer((_, res) => res.end('${text}')).listen(process.env.PORT)\n`
    const bare = await bareDeploy(network.name, program, text)
    const deployed = await deploy(program, text)
    if (round < 0) continue // warming up: images, network, lane workers
    floor.push(bare)
    ours.push(deployed)
  }
  const f = summary(floor)
  const o = summary(ours)
  console.log(`bare engine calls   median ${f.median.toFixed(0)} ms   p95 ${f.p95.toFixed(0)} ms`)
  console.log(`POST /v2/apps       median ${o.median.toFixed(0)} ms   p95 ${o.p95.toFixed(0)} ms`)
  console.log(
    `over the floor      ${(o.median - f.median).toFixed(0)} ms   (ratio ${(o.median / f.median).toFixed(2)}, ${rounds} rounds)`,
  )
} finally {
  await network.remove()
  await platform.stop()
}

async function deploy(program: string, text: string): Promise<number> {
  const { base_url, edge_url, apps_domain, api_key } = platform.info
  const subdomain = `bench-${randomBytes(5).toString('hex')}`
  const config = `DISPLAY_NAME=bench\nMAIN=index.js\nMEMORY=512\nVERSION=recommended\nSUBDOMAIN=${subdomain}\n`
  const form = new FormData()
  form.append('file', new Blob([await zipOf({ 'berth.app': config, 'index.js': program })]), 'app.zip')
  const headers = { authorization: api_key }
  const edge = new URL(edge_url)
  const begun = performance.now()
  const answer = await fetch(`${base_url}/v2/apps`, { method: 'POST', headers, body: form })
  const body = (await answer.json()) as { response?: { id: string } }
  if (!body.response) throw new Error(`POST /v2/apps answered ${answer.status}: ${JSON.stringify(body)}`)
  await untilAnswers({ address: edge.hostname, port: Number(edge.port), host: `${subdomain}.${apps_domain}`, text })
  const took = performance.now() - begun
  await fetch(`${base_url}/v2/apps/${body.response.id}`, { method: 'DELETE', headers })
  return took
}
