import { randomBytes } from 'node:crypto'
import { untilAnswers } from './kit/answer.ts'
import { bareDeploy, floorNetwork } from './kit/deploy-floor.docker.ts'
import { startPlatform } from './kit/platform.ts'
import { inTurn, quantile, verdict } from './kit/sides.ts'
import { zipOf } from './kit/zip.ts'

/**
 * From POST /v2/apps to the first right answer over the proxy, and from POST commit until the new text answers, beside the floor:
 * the same program in a container made with bare engine calls. All in turn, in one run, on one machine; a host that has deployed
 * before. Goal: floor + 400 ms at the median.
 */
const rounds = Number(process.argv[2] ?? 15)

const platform = await startPlatform()
const network = await floorNetwork()
try {
  const program = (text: string) =>
    `require('node:http').createServer((_, res) => res.end('${text}')).listen(process.env.PORT)\n`
  const figures = await inTurn<'floor' | 'berth', { took: number; commit: number }>(
    rounds,
    {
      floor: async () => {
        const text = `hello ${randomBytes(6).toString('hex')}`
        return { took: await bareDeploy(network.name, program(text), text), commit: 0 }
      },
      berth: async () => {
        const text = `hello ${randomBytes(6).toString('hex')}`
        const deployed = await deploy(program(text), text)
        const again = await commit(deployed, program(`${text} again`), `${text} again`)
        await remove(deployed)
        return { took: deployed.took, commit: again }
      },
    },
    { warmUp: 2 }, // images, network, lane workers
  )
  const reported = (values: number[]) =>
    `median ${quantile(values, 0.5).toFixed(0)} ms   p95 ${quantile(values, 0.95).toFixed(0)} ms`
  const floor = figures.floor.map(({ took }) => took)
  console.log(`bare engine calls   ${reported(floor)}`)
  for (const [name, values, goal] of [
    ['POST /v2/apps', figures.berth.map(({ took }) => took), 400],
    ['POST commit', figures.berth.map(({ commit }) => commit), null],
  ] as const) {
    const over = quantile(values, 0.5) - quantile(floor, 0.5)
    console.log(`${name.padEnd(19)} ${reported(values)}`)
    const met = goal === null ? '' : `; ${verdict(`at most ${goal} ms`, over <= goal)}`
    console.log(`  over the floor    ${over.toFixed(0)} ms   (${rounds} rounds${met})`)
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
  const startedAt = performance.now()
  const answer = await fetch(base_url + path, { method: 'POST', headers: { authorization: api_key }, body: form })
  const body = await answer.json()
  if (!answer.ok) throw new Error(`POST ${path} answered ${answer.status}: ${JSON.stringify(body)}`)
  await untilAnswers({ address: edge.hostname, port: Number(edge.port), host, text })
  return { took: performance.now() - startedAt, body }
}

async function remove({ id }: Deployed): Promise<void> {
  const { base_url, api_key } = platform.info
  await fetch(`${base_url}/v2/apps/${id}`, { method: 'DELETE', headers: { authorization: api_key } })
}
