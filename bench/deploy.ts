import { randomBytes } from 'node:crypto'
import { untilAnswers } from './answer.ts'
import { bareDeploy, floorNetwork } from './deploy-floor.docker.ts'
import { startPlatform, summary } from './platform.ts'
import { zipOf } from './zip.ts'

/**
 * From POST /v2/apps to the first right answer over the proxy, and from POST commit until the new text answers, beside the floor:
 * the same program in a container made with bare engine calls. All in turn, in one run, on one machine; a host that has deployed
 * before. Goal: floor + 400 ms at the median.
 */
const rounds = Number(process.argv[2] ?? 15)

const platform = await startPlatform()
const network = await floorNetwork()
try {
  const ours: number[] = []
  const commits: number[] = []
  const floor: number[] = []
  for (let round = -2; round < rounds; round++) {
    const text = `hello ${randomBytes(6).toString('hex')}`
    const program = `require('node:http').createServer((_, res) => res.end('${text}')).listen(process.env.PORT)\n`
    const bare = await bareDeploy(network.name, program, text)
    const deployed = await deploy(program, text)
    const committed = await commit(deployed, program.replace(text, `${text} again`), `${text} again`)
    await remove(deployed)
    if (round < 0) continue // warming up: images, network, lane workers
    floor.push(bare)
    ours.push(deployed.took)
    commits.push(committed)
  }
  const f = summary(floor)
  console.log(`bare engine calls   median ${f.median.toFixed(0)} ms   p95 ${f.p95.toFixed(0)} ms`)
  for (const [name, values] of [
    ['POST /v2/apps', ours],
    ['POST commit', commits],
  ] as const) {
    const { median, p95 } = summary(values)
    console.log(`${name.padEnd(19)} median ${median.toFixed(0)} ms   p95 ${p95.toFixed(0)} ms`)
    const over = `${(median - f.median).toFixed(0)} ms   (ratio ${(median / f.median).toFixed(2)}, ${rounds} rounds)`
    console.log(`  over the floor    ${over}`)
  }
} finally {
  await network.remove()
  await platform.stop()
}

interface Deployed {
  id: string
  host: string
  took: number
}

async function deploy(program: string, text: string): Promise<Deployed> {
  const subdomain = `bench-${randomBytes(5).toString('hex')}`
  const config = `DISPLAY_NAME=bench\nMAIN=index.js\nMEMORY=512\nVERSION=recommended\nSUBDOMAIN=${subdomain}\n`
  const host = `${subdomain}.${platform.info.apps_domain}`
  const { took, body } = await timed('/v2/apps', { 'berth.app': config, 'index.js': program }, host, text)
  return { id: (body as { response: { id: string } }).response.id, host, took }
}

/** The application still serves its first version: the time until the second one answers under the same name. */
async function commit({ id, host }: Deployed, program: string, text: string): Promise<number> {
  return (await timed(`/v2/apps/${id}/commit`, { 'index.js': program }, host, text)).took
}

/** Sends a zip of these files, and asks until the text is answered. */
async function timed(path: string, files: Record<string, string>, host: string, text: string) {
  const { base_url, edge_url, api_key } = platform.info
  const edge = new URL(edge_url)
  const form = new FormData()
  form.append('file', new Blob([await zipOf(files)]), 'app.zip')
  const begun = performance.now()
  const answer = await fetch(base_url + path, { method: 'POST', headers: { authorization: api_key }, body: form })
  const body = await answer.json()
  if (!answer.ok) throw new Error(`POST ${path} answered ${answer.status}: ${JSON.stringify(body)}`)
  await untilAnswers({ address: edge.hostname, port: Number(edge.port), host, text })
  return { took: performance.now() - begun, body }
}

async function remove({ id }: Deployed): Promise<void> {
  const { base_url, api_key } = platform.info
  await fetch(`${base_url}/v2/apps/${id}`, { method: 'DELETE', headers: { authorization: api_key } })
}
