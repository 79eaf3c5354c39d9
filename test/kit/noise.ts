import { access } from 'node:fs/promises'
import { get } from 'node:http'
import { join } from 'node:path'
import * as operations from '../../db/operations.ts'
import type { TestUser } from './api.ts'
import { heavy } from './bombs.ts'
import { type OpenBody, openBody } from './open-body.ts'
import type { Deployed, TestPlatform } from './platform.ts'
import { nodeProgram, type Program } from './programs.ts'
import { zipOf } from './zips.ts'

/** Takes every connection and never ends its answer: a byte of a header twice a second. */
const tricklingProgram: Program = {
  main: 'index.js',
  files: {
    'index.js': `require('node:net').createServer(socket => {
  require('node:fs').writeFileSync('asked', 'x')
  socket.write('HTTP/1.1 200 OK\\r\\n')
  const timer = setInterval(() => socket.write('a'), 500)
  socket.on('error', () => {}).on('close', () => clearInterval(timer))
}).listen(process.env.PORT)\n`,
  },
}

/** Answers, and prints half a megabyte a second for ever. */
const talkingProgram: Program = {
  main: 'index.js',
  files: {
    'index.js': `setInterval(() => process.stdout.write(('x'.repeat(999) + '\\n').repeat(50)), 100)
require('node:http').createServer((_, answer) => answer.end('it talks')).listen(process.env.PORT)\n`,
  },
}

export interface NoiseOptions {
  /** Programs that never answer. */
  silent: number
}

export interface Noise {
  /** Gates that hang at this moment. */
  gates(): Promise<number>
  /** Archives at the limit that were inspected so far. */
  inspected(): number
  stop(): Promise<void>
}

const bodiesAtOnce = 4
const archivesAtOnce = 3

/**
 * One account at its worst: gates that hang, output without end with a reader, archives at the limit one after the other, bodies that
 * stall. Resolves once all of it is seen to be under way.
 */
export async function makeNoise(platform: TestPlatform, user: TestUser, { silent }: NoiseOptions): Promise<Noise> {
  const as = platform.api.as(user)
  const talking = platform.upload(user, talkingProgram)
  const trickling = await Promise.all(Array.from({ length: silent }, () => platform.upload(user, tricklingProgram)))
  const talker = await talking
  const refused = [talker, ...trickling].find(({ status }) => status !== 200)
  if (refused) throw new Error(`the noise has not begun: ${refused.status} ${refused.text}`)
  await platform.ended(talker.operationId, 180)
  const apps = [talker, ...trickling]
  let heardBytes = 0
  // It keeps nothing of what comes.
  const headers = { authorization: user.key, accept: 'text/event-stream' }
  const reader = get(`${platform.api.url}/v2/apps/${talker.id}/realtime`, { agent: false, headers }, stream =>
    stream
      .on('error', () => {})
      .on('data', piece => {
        heardBytes += piece.length
      }),
  ).on('error', () => {})

  let over = false
  let inspected = 0
  const archive = new Blob([new Uint8Array(heavy(80))])
  const inspecting = Array.from({ length: archivesAtOnce }, async () => {
    while (!over) {
      const form = new FormData()
      form.append('file', archive, 'app.zip')
      // It has no configuration file, which is told once all of it was read.
      const answer = await as.post('/v2/apps', form).catch(() => null)
      if (answer?.body.code === 'MISSING_CONFIG') inspected++
    }
  })
  const open: OpenBody[] = []
  const stalling = Array.from({ length: bodiesAtOnce }, async (_, n) => {
    while (!over) {
      const url = `${platform.api.url}/v2/apps/${talker.id}/files`
      const body = await openBody(url, {
        method: 'PUT',
        headers: { authorization: user.key },
        declared: 64 * 1024 * 1024,
      })
      open[n] = body
      await body.send(2 * 1024 * 1024)
      if (!over) await body.status
      body.close()
    }
  })

  /** Was asked, and its creation goes on. */
  const hangs = async ({ id, operationId }: Deployed) => {
    const folder = platform.hosts.get('a')!.parts.volumes.path(id)
    const asked = await access(join(folder, 'files', 'asked')).then(
      () => true,
      () => false,
    )
    return asked && (await operations.find(platform.db, operationId))?.state === 'running'
  }
  const gates = async () => (await Promise.all(trickling.map(hangs))).filter(Boolean).length
  await platform.until(async () => (await gates()) >= Math.min(silent, 8), 180, 'the gates hang')
  await platform.until(async () => heardBytes > 1_000_000, 60, 'the output is read')
  await platform.until(async () => inspected > 0, 60, 'archives are inspected')
  await platform.until(async () => open.filter(Boolean).length === bodiesAtOnce, 60, 'bodies are open')
  return {
    gates,
    inspected: () => inspected,
    async stop() {
      over = true
      reader.destroy()
      for (const body of open) body.close()
      await Promise.all(apps.map(({ id }) => as.delete(`/v2/apps/${id}`)))
      await Promise.all([...inspecting, ...stalling])
    },
  }
}

/** What a neighbour does all day, each until it is done. Rejects when something has not its usual end. */
export function neighbour(platform: TestPlatform, user: TestUser, app: Deployed) {
  const as = platform.api.as(user)
  let version = 0
  const command = async (verb: string) => {
    const answer = await as.post(`/v2/apps/${app.id}/${verb}`)
    if (answer.status !== 200) throw new Error(`${verb}: ${answer.status} ${answer.text}`)
  }
  const succeeded = async (operationId: string, what: string) => {
    const { state, code } = await platform.ended(operationId, 180)
    if (state !== 'success') throw new Error(`${what}: ${state} ${code}`)
  }
  return {
    stop: () => command('stop'),
    start: () => command('start'),
    async deploy() {
      const text = `version ${++version}`
      const form = new FormData()
      form.append('file', new Blob([new Uint8Array(zipOf(nodeProgram(text).files))]), 'more.zip')
      const answer = await as.post(`/v2/apps/${app.id}/commit?restart=true`, form)
      if (answer.status !== 200) throw new Error(`commit: ${answer.status} ${answer.text}`)
      await succeeded(answer.headers.get('x-operation-id')!, 'the deploy')
      await platform.serves(app.domain, text, 60)
    },
    /** Leaves the application; give it to `remove`. */
    async upload(): Promise<Deployed> {
      const made = await platform.upload(user, nodeProgram('another one'), {}, { tries: 1 })
      if (made.status !== 200) throw new Error(`upload: ${made.status} ${made.text}`)
      await succeeded(made.operationId, 'the creation')
      await platform.serves(made.domain, 'another one', 60)
      return made
    },
    async remove({ id }: Deployed) {
      const answer = await as.delete(`/v2/apps/${id}`)
      if (answer.status !== 200) throw new Error(`delete: ${answer.status} ${answer.text}`)
    },
  }
}
