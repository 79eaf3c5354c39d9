import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { ExecutionContext, SerialFn } from 'ava'
import { DumpCorrupt } from '../../activities/databases/contents.ts'
import type { LocalEngine } from '../../activities/databases/port.ts'
import { withTimeout } from '../../lib/async/timeout.ts'
import { comesTrue } from '../kit/comes-true.ts'
import { type CopiedEngine, type DumpFiles, databaseCopies, filesOf } from '../kit/databases/copies.ts'
import { corrupt, type EngineContainer } from '../kit/databases/engine-container.ts'
import { stallingSocket } from '../kit/databases/stalling-socket.ts'

export interface ContentsUnderTest extends CopiedEngine {
  /** Writes as the customer: names and values of every kind that are easily lost. */
  write(database: EngineContainer): Promise<void>
  /** Writes the same in another order. */
  writeOtherwise(database: EngineContainer): Promise<void>
  /** Asserts that the customer finds all that `write` wrote, with its rights. */
  found(t: ExecutionContext, database: EngineContainer): Promise<void>
  /** Each changes one thing of what `write` wrote. */
  changes: Readonly<Record<string, (database: EngineContainer) => Promise<void>>>
  /** What no dump may contain: passwords of users, and what the engine stores of them. */
  secrets(database: EngineContainer): Promise<string[]>
  /** A dump is put into the data folder before the engine starts. */
  loadsBeforeStart?: boolean
  /** Files of its dumps without which nothing can be loaded. */
  files: readonly string[]
  /** The digest is that of the dump's own moment; otherwise only a restored copy has one. */
  digestOfDump: boolean
}

type FilledDatabase = EngineContainer & { dump: string; digest: string }

/** The contract of what copies a database, on real engines. Tests share one that is filled; returns it, and means for further tests. */
export function databaseContentsContract(
  test: SerialFn,
  name: string,
  subject: () => ContentsUnderTest,
): (() => Promise<FilledDatabase>) & ReturnType<typeof databaseCopies> {
  const copies = databaseCopies(test, subject)
  let filled: ReturnType<typeof provision> | undefined

  async function provision() {
    const { contents, write } = subject()
    const container = await copies.serving()
    await write(container)
    const dump = container.dumpFolder()
    const ofDump = await container.locally(local => contents.dump(local, container.job(dump)))
    const digest = await container.locally(contents.digest)
    return { ...container, dump, ofDump, digest }
  }

  const source = () => {
    filled ??= provision()
    return filled
  }

  test(`${name}: a dump is loaded into another engine, where the customer finds everything`, async t => {
    const { dump, ofDump, digest } = await source()
    t.regex(digest, /^[0-9a-f]{64}$/)
    t.is(ofDump, subject().digestOfDump ? digest : null)
    const { found, contents, adapter } = subject()
    await copies.loading(filesOf(dump), async (copy, digestOfCopy) => {
      t.is(digestOfCopy, digest)
      t.is(await adapter.login(copy.remote, copy.secrets().password), 'accepted')
      t.is(await adapter.login(copy.remote, 'wrong'), 'refused')
      await found(t, copy)
      t.is(await copy.locally(contents.digest), digest, 'reading changes nothing')
      const again = copy.dumpFolder()
      await copy.locally(local => contents.dump(local, copy.job(again)))
      t.is(await copies.digestOf(filesOf(again)), digest)
    })
  })

  test(`${name}: a dump is files of the engine's user, without passwords and what is stored of them`, async t => {
    const database = await source()
    const files = filesOf(database.dump)
    for (const each of subject().files) t.true(each in files, each)
    const secrets = [...Object.values(database.secrets()), ...(await subject().secrets(database))]
    t.true(secrets.length > 2)
    for (const [file, content] of Object.entries(files)) {
      t.is(statSync(join(database.dump, file)).uid, database.traits.uid, file)
      for (const secret of secrets) t.false(content.includes(secret), file)
    }
  })

  test(`${name}: a listener of a dump may copy each file from its beginning on, and all of them once the dump is complete`, async t => {
    const database = await source()
    const folder = database.dumpFolder()
    const [begun, ended] = [new Set<string>(), new Set<string>()]
    const starts = new Map<string, Buffer>()
    let complete: string[] | null = null
    const look = () => {
      for (const path of begun) starts.set(path, readFileSync(join(folder, path)).subarray(0, 65_536))
    }
    const looking = setInterval(look, 2)
    const heard = {
      begins(path: string) {
        t.is(complete, null)
        begun.add(path)
      },
      ends(path: string) {
        t.true(begun.has(path))
        ended.add(path)
      },
      complete() {
        complete = Object.keys(filesOf(folder))
      },
    }
    await database
      .locally(local => subject().contents.dump(local, { ...database.job(folder), heard }))
      .finally(() => clearInterval(looking))
    const files = filesOf(folder)
    // Engines whose dump is one file of their own say nothing.
    if (begun.size > 0) t.deepEqual(complete, Object.keys(files))
    t.deepEqual(ended, begun)
    for (const [path, start] of starts) t.true(files[path]!.subarray(0, start.length).equals(start), path)
  })

  test(`${name}: a damaged dump is refused, or has other contents`, async t => {
    const { dump, digest } = await source()
    const files = filesOf(dump)
    const damaged: [what: string, files: DumpFiles][] = []
    for (const file of subject().files) {
      const content = files[file]!
      const { [file]: _, ...others } = files
      damaged.push([`without ${file}`, others])
      for (const part of [0, 0.5, 0.98])
        damaged.push([`${file} cut at ${part}`, { ...files, [file]: content.subarray(0, content.length * part) }])
      for (const part of [0.2, 0.6, 0.9]) {
        const flipped = Buffer.from(content)
        flipped[Math.floor(content.length * part)]! ^= 0x10
        damaged.push([`${file} with another bit at ${part}`, { ...files, [file]: flipped }])
      }
    }
    const tried = [...damaged.map(([, each]) => each), files]
    const outcomes = await (subject().loadsBeforeStart ? outcomesApart(tried) : copies.outcomesOf(tried))
    t.is(outcomes.pop(), digest, 'one that is whole is accepted after all of them')
    for (const [n, [what]] of damaged.entries()) {
      t.not(outcomes[n], digest, what)
      if (what.startsWith('without ')) t.true(outcomes[n] instanceof DumpCorrupt, what)
    }
  })

  /** As `outcomesOf`, with an engine for each. */
  async function outcomesApart(dumps: readonly DumpFiles[]): Promise<(string | DumpCorrupt)[]> {
    const outcomes: (string | DumpCorrupt)[] = []
    for (const files of dumps) outcomes.push(await copies.digestOf(files).catch(corrupt))
    return outcomes
  }

  test(`${name}: a dump and a digest end immediately when they are given up, although the engine says nothing`, async t => {
    const database = await source()
    const { contents } = subject()
    const works = {
      dump: (local: LocalEngine) => contents.dump(local, database.job(database.dumpFolder())),
      digest: (local: LocalEngine) => contents.digest(local),
    }
    for (const [what, work] of Object.entries(works)) {
      const whole = await throughSocket(database, local => work(local))
      const reason = new Error('given up')
      const ending = new AbortController()
      // A dump that the engine writes by itself is a few words about its progress.
      const isShort = what === 'dump' && !subject().digestOfDump
      const after = isShort ? 2 : Math.floor(whole.pieces() / 2)
      await throughSocket(
        database,
        async (local, { stalled }) => {
          const working = work({ ...local, signal: ending.signal })
          await Promise.race([stalled, working])
          ending.abort(reason)
          const late = () => new Error(`The ${what} goes on.`)
          t.is(await t.throwsAsync(withTimeout(working, endMs, late)), reason, what)
        },
        after,
      )
    }
  })

  test(`${name}: contents that were written in another order have the same digest`, async t => {
    const { digest } = await source()
    const other = await copies.serving()
    await subject().writeOtherwise(other)
    t.is(await other.locally(subject().contents.digest), digest)
    await other.clean()
  })

  test(`${name}: each change of the contents changes the digest`, async t => {
    const database = await source()
    const seen = new Map([[database.digest, 'what was written']])
    for (const [what, change] of Object.entries(subject().changes)) {
      await change(database)
      const digest = await database.locally(subject().contents.digest)
      t.is(seen.get(digest), undefined, what)
      seen.set(digest, what)
    }
  })

  return Object.assign(source, copies)
}

const endMs = 60_000

/** Works with the engine through a socket that holds back what it says after so many pieces; all connections are closed in the end. */
async function throughSocket(
  database: EngineContainer,
  work: (local: LocalEngine, socket: Awaited<ReturnType<typeof stallingSocket>>) => Promise<unknown>,
  afterPieces?: number,
) {
  return database.locally(async local => {
    const socket = await stallingSocket(local.socket, afterPieces)
    try {
      await work({ ...local, socket: socket.path }, socket)
      await comesTrue(() => socket.connections() === 0)
      return socket
    } finally {
      socket.close()
    }
  })
}
