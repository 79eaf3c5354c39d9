import { existsSync } from 'node:fs'
import { get } from 'node:http'
import { connect } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { labels } from '../../../activities/containers/port.ts'
import type { Answer, TestUser } from '../actors/api.ts'
import { openBody } from '../actors/open-body.ts'
import { heavy } from '../bombs.ts'
import { webhookOf } from '../git/deliveries.ts'
import { bareDocker } from '../hosts/host-remains.ts'
import type { Deployed, TestPlatform } from '../platform/platform.ts'
import type { Program } from '../programs.ts'
import { busyProgram, endlessInstall, silences, silentProgram } from './noise-programs.ts'

export interface NoiseOptions {
  /** Programs that never answer; every fourth of them prints all the while. */
  silent: number
  /** Programs that answer, print and compute. */
  busy: number
}

/** What was done so far, by kind. */
type Done = Record<
  'archives' | 'commits' | 'snapshots' | 'heads' | 'bodies' | 'deliveries' | 'commands' | 'reads',
  number
>

export interface Noise {
  readonly done: Done
  /** Gates that hang at this moment. */
  gates(): Promise<number>
  /** Pauses all noise until `goOn`: requests in progress are awaited, and its programs are frozen, in their gates too. */
  pause(): Promise<void>
  goOn(): Promise<void>
  stop(): Promise<void>
}

const megabyte = 1024 * 1024

/**
 * One account at its worst, as often as its rate limits (policy/limits.ts) let it, which are not in force in tests: programs that never answer, output without end with its readers, install steps
 * without end, archives at the limit, headers and bodies that trickle, snapshots, commands and readings of logs, each kind as often as it may be.
 * Resolves once all of it was seen to be in progress.
 */
export async function makeNoise(platform: TestPlatform, user: TestUser, options: NoiseOptions): Promise<Noise> {
  const as = platform.api.as(user)
  /** Uploads that many. On a busy machine an upload may have to be repeated. */
  const many = (count: number, program: (n: number) => Program): Promise<Deployed[]> => {
    const upload = (n: number) =>
      platform.until(
        async () => {
          const made = await platform.upload(user, program(n))
          return made.status === 200 && made
        },
        180,
        'a program is taken',
      )
    return Promise.all(Array.from({ length: count }, (_, n) => upload(n)))
  }
  // Their gates come first: those that hang take all that the account has.
  const busy = await many(options.busy, () => busyProgram)
  for (const { operationId } of busy) await platform.ended(operationId, 180)
  const [quiet, installing] = await Promise.all([
    many(options.silent, n => silentProgram(silences[n % silences.length]!, n % 4 === 0)),
    many(3, () => endlessInstall),
  ])
  const apps = [...busy, ...quiet, ...installing]
  const [first, second] = busy as [Deployed, Deployed]
  const webhook = await webhookOf(platform.api, user, first.id)

  const done: Done = {
    archives: 0,
    commits: 0,
    snapshots: 0,
    heads: 0,
    bodies: 0,
    deliveries: 0,
    commands: 0,
    reads: 0,
  }
  let over = false
  let end = () => {}
  const ended = new Promise<void>(resolve => {
    end = resolve
  })
  let paused = false
  /** Again and again, at most once in so many seconds, except while there is a pause. */
  const often = async (seconds: number, act: () => Promise<unknown>) => {
    while (!over) {
      if (paused) {
        await sleep(50)
        continue
      }
      const rest = Promise.race([sleep(seconds * 1000), ended])
      underWay.add(act)
      await act().catch(() => {})
      underWay.delete(act)
      await rest
    }
  }
  const underWay = new Set<() => Promise<unknown>>()

  const atTheLimit = new Uint8Array(heavy(80))
  const send = (path: string, bytes: Uint8Array<ArrayBuffer>) => {
    const form = new FormData()
    form.append('file', new Blob([bytes]), 'app.zip')
    return as.post(path, form)
  }
  const settled = async (answer: Answer) => {
    const operationId = answer.headers.get('x-operation-id')
    if (!operationId) return
    // It may wait for the account's own gates, which hang: that is no work, and no reason to keep a pause waiting.
    const ended = platform.ended(operationId, 900).catch(() => {})
    while (!over && !paused && !(await Promise.race([ended.then(() => true), sleep(200, false)])));
  }
  const slowBody = async (
    path: string,
    kind: 'bodies' | 'deliveries',
    headers: Record<string, string>,
    method = 'POST',
  ) => {
    const body = await openBody(platform.api.url + path, { method, headers, declared: 20 * megabyte })
    // The first megabytes as fast as they are read, the rest at the slowest rate that is permitted.
    void body.send(2 * megabyte)
    const trickle = setInterval(() => void body.send(10 * 1024), 1000)
    const ended = body.status.then(() => true)
    while (!over && !paused && !(await Promise.race([ended, sleep(200, false)])));
    clearInterval(trickle)
    body.close()
    done[kind]++
  }
  const slowHead = async (port: number) => {
    const socket = connect(port, '127.0.0.1').on('error', () => {})
    const closed = new Promise<boolean>(resolve => socket.resume().on('close', () => resolve(true)))
    socket.write('GET / HTTP/1.1\r\nhost: x\r\nslow: ')
    const trickle = setInterval(() => void socket.write('a'), 1000)
    while (!over && !paused && !(await Promise.race([closed, sleep(200, false)])));
    clearInterval(trickle)
    socket.destroy()
    done.heads++
  }
  const apiPort = Number(new URL(platform.api.url).port)
  const account = { authorization: user.key }
  const form = { ...account, 'content-type': 'multipart/form-data; boundary=x' }
  const signed = { 'x-hub-signature-256': `sha256=${'0'.repeat(64)}`, 'x-github-event': 'push' }
  const counted = async (kind: keyof Done, act: Promise<Answer>) => {
    const answer = await act
    if (answer.status === 200) done[kind]++
    return answer
  }
  const loops = [
    // It has no configuration file, which is reported once all of it was read.
    often(3, async () => {
      const { body } = await send('/v2/apps', atTheLimit)
      if (body.code === 'MISSING_CONFIG') done.archives++
    }),
    ...busy.map(({ id }) =>
      often(8, async () => settled(await counted('commits', send(`/v2/apps/${id}/commit?restart=false`, atTheLimit)))),
    ),
    ...busy.map(({ id }) => often(180, () => counted('snapshots', as.post(`/v2/apps/${id}/snapshots`)))),
    ...busy.map(({ id }) => often(5, () => counted('reads', as.get(`/v2/apps/${id}/logs`)))),
    often(4, () => counted('reads', as.get('/v2/apps/status'))),
    often(3, () => counted('commands', as.post(`/v2/apps/${second.id}/restart`))),
    ...[1, 2, 3, 4].map(() => often(0.2, () => slowBody(`/v2/apps/${first.id}/files`, 'bodies', account, 'PUT'))),
    ...[1, 2, 3, 4].map(() => often(0.2, () => slowBody(`/v2/apps/${first.id}/commit`, 'bodies', form))),
    ...[{}, {}, signed, signed].map(headers => often(0.2, () => slowBody(webhook, 'deliveries', headers))),
    ...Array.from({ length: 20 }, (_, n) =>
      often(0.2, () => slowHead(n % 2 === 0 ? apiPort : platform.base.proxy.port)),
    ),
    ...busy.slice(0, 5).map(({ id }) => often(5, () => listen(platform, user, id, () => over || paused))),
  ]

  const containers = () => bareDocker.listContainers({ filters: { label: [`${labels.owner}=${user.id}`] } })
  /** Does not use the engine's pause: the host would unpause containers that no snapshot has paused. */
  const signal = async (name: 'SIGSTOP' | 'SIGCONT') => {
    for (const { Id } of await containers()) {
      const { Processes = [] } = await bareDocker
        .getContainer(Id)
        .top()
        .catch(() => ({ Processes: [] as string[][] }))
      for (const [, pid] of Processes) tryKill(Number(pid), name)
    }
  }
  /** Programs that got a request, and whose creations continue. */
  const gates = async () => {
    const mounts = join(platform.base.folder, 'hosts', platform.hostId('a'), 'mounts')
    const asked = quiet.filter(({ id }) => existsSync(join(mounts, id, 'files', 'asked')))
    const ids = asked.map(({ operationId }) => operationId)
    return (await platform.db('operations').whereIn('id', ids).where({ state: 'running' })).length
  }
  const busyNow = Object.keys(done).filter(
    kind => kind !== 'heads' && kind !== 'bodies' && kind !== 'deliveries',
  ) as (keyof Done)[]
  await platform.until(async () => (await gates().catch(() => 0)) >= Math.min(options.silent, 8), 180, 'the gates hang')
  await platform
    .until(async () => busyNow.every(kind => done[kind] > 0), 180, `all of it: ${JSON.stringify(done)}`)
    .catch(error => {
      throw new Error(`${error.message} ${JSON.stringify(done)}`)
    })
  return {
    done,
    gates,
    async pause() {
      paused = true
      await platform
        .until(async () => underWay.size === 0, 300, 'the noise pauses')
        .catch(error => {
          throw new Error(`${error.message}: ${[...underWay].join('; ')}`)
        })
      await signal('SIGSTOP')
    },
    async goOn() {
      await signal('SIGCONT')
      paused = false
    },
    async stop() {
      over = true
      end()
      await signal('SIGCONT')
      await Promise.all(loops)
      await Promise.all(apps.map(({ id }) => as.delete(`/v2/apps/${id}`)))
    },
  }
}

function tryKill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch {
    // It has ended.
  }
}

/** Reads a live stream without storing it, until it is aborted. */
function listen(platform: TestPlatform, user: TestUser, appId: string, ended: () => boolean): Promise<void> {
  return new Promise(resolve => {
    const headers = { authorization: user.key, accept: 'text/event-stream' }
    const request = get(`${platform.api.url}/v2/apps/${appId}/realtime`, { agent: false, headers }, stream =>
      stream.on('error', () => {}).resume(),
    ).on('error', () => {})
    const look = setInterval(() => ended() && request.destroy(), 100)
    request.on('close', () => {
      clearInterval(look)
      resolve()
    })
  })
}
