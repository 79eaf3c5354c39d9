import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { Agent, get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { unusedPort } from '../cli/installation/ports.ts'
import { startOrigin } from '../test/kit/servers/origin.ts'
import { startProxy } from '../test/kit/servers/proxy.ts'
import { cpuSeconds } from './edge/nginx-cpu.ts'
import { inTurn, quantile, timesAsMuch, verdict } from './kit/sides.ts'

/**
 * Hits of the cache compared with a bare nginx with `proxy_cache`, and requests by a custom name of three members with the route of one. In
 * turn, in one run; CPU of nginx's worker for each request. Goals: hits at least 75 % of the bare ones, a name at least 75 % of a route.
 */
const rounds = Number(process.argv[2] ?? 5)
const count = Number(process.argv[3] ?? 8000)
const address = '127.0.0.1'
const route = 'one.apps.localhost'

const body = Buffer.alloc(4096, 'x')
const origin = await startOrigin((incoming, answer) => {
  const cacheable = incoming.url === '/cached' ? { 'cache-control': 'max-age=3600' } : {}
  answer.writeHead(200, { 'content-length': body.length, ...cacheable }).end(body)
})
const proxy = await startProxy({ EDGE_WORKERS: '1', RATE_LIMIT_SCALE: '1000' })
const bare = await bareCache(origin.port)
try {
  const members = ['one', 'two', 'three'].map(label => `${label}.apps.localhost`)
  for (const [index, host] of members.entries())
    await proxy.edge.setRoute({ host, appId: `app${index}`, address, port: origin.port, version: '1.0' })
  await proxy.edge.setName({ host: 'group.example.org', members })
  const ours = { port: proxy.port, folder: join(proxy.config.dataDir, 'proxy') }
  // Each application has a path that is remembered: requests to one without are cheaper.
  for (const host of members) await requests(ours.port, host, '/cached', 10)
  await requests(bare.port, route, '/cached', 10)
  await report('hits of the cache', { bare: use(bare, route, '/cached'), berth: use(ours, route, '/cached') })
  await report('a custom name', { bare: use(ours, route, '/'), berth: use(ours, 'group.example.org', '/') })
} finally {
  await bare.stop()
  await proxy.stop()
  await origin.stop()
}

interface Side {
  port: number
  /** With the file that names nginx's process. */
  folder: string
}

/** CPU seconds of nginx's worker for one request. */
function use({ port, folder }: Side, host: string, path: string) {
  return async () => {
    const before = await cpuSeconds(folder)
    await requests(port, host, path, count)
    return ((await cpuSeconds(folder)) - before) / count
  }
}

async function report(name: string, sides: Record<'bare' | 'berth', () => Promise<number>>): Promise<void> {
  const figures = await inTurn(rounds, sides)
  const [floor, ours] = [quantile(figures.bare, 0.5) * 1e6, quantile(figures.berth, 0.5) * 1e6]
  const share = timesAsMuch(figures.bare, figures.berth) * 100
  const of = `beside ${floor.toFixed(0)}, ours ${ours.toFixed(0)} us of CPU`
  console.log(`${name.padEnd(20)}${of.padEnd(38)}${share.toFixed(0)} %   ${verdict('75 %', share >= 75)}`)
}

/** Requests on 16 connections that stay open. */
async function requests(port: number, host: string, path: string, total: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  let left = total
  const one = async () => {
    while (left-- > 0) {
      const [answer] = await once(get({ host: address, port, path, headers: { host }, agent }), 'response')
      if (answer.statusCode !== 200) throw new Error(`${host} answered ${answer.statusCode}`)
      await once(answer.resume(), 'end')
    }
  }
  await Promise.all(Array.from({ length: 16 }, one))
  agent.destroy()
}

/** nginx with one worker, a cache, and a line in its log for each request, as ours writes one. */
async function bareCache(upstream: number): Promise<Side & { stop(): Promise<void> }> {
  const folder = await mkdtemp(join(tmpdir(), 'berth-bench-cache-'))
  await chmod(folder, 0o711)
  const port = await unusedPort()
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'].map(
    name => `${name}_temp_path ${folder}/${name};`,
  )
  const text = `user www-data; daemon off; pid ${folder}/nginx.pid; error_log stderr warn; worker_processes 1;
    events { worker_connections 4096; }
    http { access_log ${folder}/access.log; tcp_nodelay on; keepalive_requests 1000000; ${temporary.join(' ')}
      proxy_cache_path ${folder}/cache levels=1:2 use_temp_path=off keys_zone=all:16m max_size=1g inactive=1d;
      upstream origin { server ${address}:${upstream}; keepalive 64; }
      server { listen ${address}:${port};
        location / { proxy_http_version 1.1; proxy_set_header Connection ''; proxy_cache all; proxy_pass http://origin; } } }`
  await writeFile(join(folder, 'nginx.conf'), text)
  const child = spawn('nginx', ['-p', folder, '-e', 'stderr', '-c', join(folder, 'nginx.conf')], { stdio: 'inherit' })
  for (let look = 0; !(await readFile(join(folder, 'nginx.pid')).catch(() => null)); look++) {
    if (look === 400) throw new Error('nginx did not start')
    await sleep(25)
  }
  return {
    ...{ port, folder },
    async stop() {
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}
