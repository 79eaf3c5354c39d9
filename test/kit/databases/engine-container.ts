import { randomBytes, randomInt } from 'node:crypto'
import { chownSync, mkdirSync, mkdtempSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { issueCertificate, makeAuthority } from '../../../activities/certificates/authority.ts'
import { bridgeName } from '../../../activities/containers/network-names.ts'
import { limitConnections } from '../../../activities/containers/network-rules.ts'
import type { ContainerSpec } from '../../../activities/containers/port.ts'
import { tenantNetwork } from '../../../activities/containers/spec.ts'
import { databaseContainer, databaseJob, passwdFile, passwdOf } from '../../../activities/databases/container.ts'
import { type DatabaseContents, DumpCorrupt, type EngineJob } from '../../../activities/databases/contents.ts'
import { dumpJob } from '../../../activities/databases/dump-jobs.ts'
import {
  type DatabaseEngine,
  type DatabaseTraits,
  type Effect,
  EngineUnavailable,
  type LocalEngine,
  type RemoteEngine,
} from '../../../activities/databases/port.ts'
import { writePair, writeSettings } from '../../../activities/databases/settings-folder.ts'
import { withSocket } from '../../../activities/databases/socket.ts'
import { iptablesFirewall, namesOf } from '../../../activities/firewall/iptables.ts'
import type { DatabaseFacts } from '../../../db/operations/database-facts.ts'
import type { EngineName } from '../../../policy/databases/engine.ts'
import { engines } from '../../../policy/databases/engines.ts'
import { databasePassword, platformPassword } from '../../../policy/databases/passwords.ts'
import { comesTrue } from '../comes-true.ts'
import { demandRoot } from '../root.ts'
import { engineFact, realDocker } from '../servers/docker.ts'
import { engineVolume } from './engine-volume.ts'
import { sharedTemplates } from './shared-templates.ts'
import { relayProgram } from './strangers.ts'

export interface EngineChoice {
  adapter: DatabaseEngine
  engine: EngineName
  version: string
  /** Default: the image of that version. */
  image?: string
  memoryMb: number
  standIn?: boolean
  /** Its volume is a file system of its own with so many MB; default: a folder. */
  diskMb?: number
  /** An address of this machine on which its port is published; default: one of the loopback. */
  address?: string
  /** Its data folder is a copy of one that was initialised before, as on a host; default: it is initialised. */
  templated?: boolean
}

export type EngineContainer = Awaited<ReturnType<typeof engineContainer>>

const serveSeconds = 60
const jobSeconds = 120
const logBytes = 10 * 1024 * 1024

/** The engine of one database in a container with the limits and folders that a host gives it, without rows. `clean` removes everything. */
export async function engineContainer(choice: EngineChoice) {
  const { adapter, engine, version, image, memoryMb, standIn = false, templated = false } = choice
  demandRoot()
  const docker = realDocker({ started: limitConnections })
  const { host } = docker
  const id = randomBytes(16).toString('hex')
  const uid = randomInt(30_000, 60_000)
  const port = randomInt(20_000, 25_000)
  const address = choice.address ?? `127.0.${randomInt(50, 250)}.${randomInt(1, 250)}`
  const hostname = `db-${id}.apps.localhost`
  const ownerId = randomBytes(12).toString('hex')
  const traits: DatabaseTraits = {
    ...{ id, engine, version, memoryMb, port, uid, hostname, standIn, readOnly: false },
    advertised: { host: hostname, port },
  }
  const facts = {
    ...{ id, ownerId, generation: 1, port, engine, version, ramMb: memoryMb, cpus: 1, uid },
    image: image ?? engines[engine].image(version),
  } as DatabaseFacts
  const hostTraits = { id: docker.run, runtime: 'runc' as const, configNames: [], buildProxy: null, caBundle: null }

  const { volume, folders, grow, remove } = await engineVolume(id, uid, choice.diskMb)

  const authority = await makeAuthority()
  const remote: RemoteEngine = { host: address, port, authority: authority.certificate, servername: hostname }
  const firewall = iptablesFirewall({ ...namesOf(docker.run), resolvers: [] })
  const key = randomBytes(32)
  let generation = 1
  const secretsOf = (number: number) => ({
    password: databasePassword(key, id, number),
    platformPassword: platformPassword(key, id),
  })
  const secrets = () => secretsOf(generation)
  const spec = databaseContainer(facts, folders, adapter.command(traits), { hostname, address, host: hostTraits })

  const locally = <T>(work: (local: LocalEngine) => Promise<T>): Promise<T> =>
    withSocket(folders.run, adapter.socketName(traits), socket => work({ socket, secrets: secrets(), traits }))

  /** Writes settings as a host does before every start and every change of the password. */
  const settle = () =>
    writeSettings(folders, { ...adapter.settings(traits, secrets()), [passwdFile]: passwdOf(uid) }, uid)

  /** Gives the engine another pair, and resolves to its certificate. */
  async function certify(issuer = authority): Promise<string> {
    const names = { commonName: hostname, names: [hostname, 'localhost'], addresses: [address] }
    const pair = await issueCertificate(issuer, { kind: 'server', ...names, days: 2 })
    const trusted = [...new Set([issuer.certificate, authority.certificate])].join('')
    await writePair(folders, { ...pair, authority: trusted }, uid)
    return pair.certificate
  }

  /** Resolves to the errors of the calls until the engine served. */
  async function untilServing(container = spec.name): Promise<unknown[]> {
    const errors: unknown[] = []
    for (const deadline = Date.now() + serveSeconds * 1000; ; await sleep(20)) {
      try {
        await locally(adapter.ping)
        return errors
      } catch (error) {
        errors.push(error)
        if (error instanceof EngineUnavailable && Date.now() < deadline && (await host.inspect(container))?.running)
          continue
        throw new Error(`It does not serve: ${await host.logs(container, 4096)}`, { cause: error })
      }
    }
  }

  async function start(): Promise<unknown[]> {
    await settle()
    await host.create(spec)
    await host.start(spec.name)
    return untilServing()
  }

  const stop = () => host.stop(spec.name, spec.stopTimeoutSeconds)

  async function settled(effect: Effect): Promise<void> {
    if (effect === 'in effect') return
    await stop()
    await start()
  }

  async function runJob(command: string[]): Promise<void> {
    let output = ''
    const take = (text: string) => {
      output += text
    }
    const job = databaseJob(facts, folders, command, hostTraits)
    const { exitCode } = await host.runToEnd(job, take, AbortSignal.timeout(jobSeconds * 1000))
    if (exitCode !== 0) throw new Error(`The job ended with exit code ${exitCode}: ${output}`)
  }

  async function initialise(): Promise<void> {
    for (const command of adapter.initialise(traits)) await runJob(command)
  }

  /** Containers that dump from this engine, or load into it, as a host runs them. */
  const job = (dump: string, writesData = false): EngineJob =>
    dumpJob({
      ...{ engine: host, traits: hostTraits, database: facts, folders, dump, writesData },
      signal: AbortSignal.timeout(jobSeconds * 1000),
    })

  /** Works with an engine that nobody else reaches. */
  async function privately<T>(work: (local: LocalEngine) => Promise<T>): Promise<T> {
    const alone = databaseJob(facts, folders, adapter.command(traits), hostTraits)
    await host.create(alone)
    await host.start(alone.name)
    await untilServing(alone.name)
    const outcome = await locally(work)
    await host.stop(alone.name, spec.stopTimeoutSeconds)
    await host.remove(alone.name)
    return outcome
  }

  async function provide(): Promise<void> {
    await host.ensureImage(spec.image)
    await host.ensureNetwork(tenantNetwork(ownerId, hostTraits.id))
    await certify()
    await settle()
    const copied = templated && (await copyOfTemplate())
    if (!copied) await initialise()
  }

  /** As new databases of a host have it; false when its engine has none. */
  const copyOfTemplate = () =>
    sharedTemplates(docker, volume).place(
      { engine, version, image: spec.image },
      { data: folders.data, uid },
      AbortSignal.timeout(jobSeconds * 1000),
    )

  /** Loads a dump into an engine that nobody else reaches; resolves to the digest of all that it has then. */
  async function loaded({ load, digest }: DatabaseContents, local: LocalEngine, dump: string): Promise<string> {
    await load(local, job(dump))
    return digest(local)
  }

  /** Makes an empty volume one with the contents of a dump; resolves to their digest. Nobody is served. */
  async function copyDump(contents: DatabaseContents, dump: string): Promise<string> {
    await provide()
    await contents.loadBeforeStart(traits, job(dump, true))
    return privately(async local => {
      await adapter.setPassword(local)
      return loaded(contents, local, dump)
    })
  }

  /** The engine by way of a container of its owner, which the firewall admits to it. */
  async function fromOwner(): Promise<RemoteEngine> {
    const command = ['node', '-e', relayProgram, '9000', hostname, String(port)]
    const own = docker.spec('', { command, network: spec.network, publish: { port: 9000, address: '127.0.0.1' } })
    await host.ensureImage(own.image)
    await host.create(own)
    await host.start(own.name)
    await comesTrue(async () => (await host.logs(own.name, 100))?.includes('listens') ?? false)
    const { address: at } = (await host.inspect(spec.name)) ?? {}
    await firewall.apply()
    await firewall.admit([{ bridge: bridgeName(tenantNetwork(ownerId, docker.run)), address: at!, port }])
    const { hostPort } = (await host.inspect(own.name)) ?? {}
    return { ...remote, host: '127.0.0.1', port: hostPort! }
  }

  return {
    ...{
      traits,
      spec,
      volume,
      grow,
      folders,
      locally,
      settle,
      certify,
      untilServing,
      start,
      stop,
      settled,
      initialise,
      runJob,
    },
    secrets,
    fromOwner,
    remote,
    hostname,

    /** Makes an empty volume one with an engine that serves; without the first password. */
    async prepare(): Promise<{ errors: unknown[] }> {
      await provide()
      return { errors: await start() }
    },

    job,

    copyDump,

    /** The same, and the engine serves. */
    async prepareCopy(contents: DatabaseContents, dump: string): Promise<string> {
      const digest = await copyDump(contents, dump)
      await start()
      return digest
    },

    /**
     * Loads dumps into an empty engine that nobody else reaches, one after another until one has changed something; resolves to what became of each:
     * the digest of its copy, or the error that refused it. For contents that are loaded while the engine serves.
     */
    async tryDumps(contents: DatabaseContents, dumps: readonly string[]): Promise<(string | DumpCorrupt)[]> {
      await provide()
      return privately(async local => {
        await adapter.setPassword(local)
        const empty = await contents.digest(local)
        const outcomes: (string | DumpCorrupt)[] = []
        for (const dump of dumps) {
          outcomes.push(await loaded(contents, local, dump).catch(corrupt))
          if ((await contents.digest(local)) !== empty) break
        }
        return outcomes
      })
    },

    /** A folder that jobs of this engine may write, with a copy of these files. `clean` removes it. */
    dumpFolder(files: Readonly<Record<string, Buffer>> = {}): string {
      const folder = mkdtempSync(join(volume, 'dump-'))
      for (const [path, content] of Object.entries(files)) {
        mkdirSync(dirname(join(folder, path)), { recursive: true })
        writeFileSync(join(folder, path), content)
      }
      for (const path of ['', ...Object.keys(files)]) chownSync(join(folder, path), uid, uid)
      return folder
    },

    /** Sets the password of the next generation; resolves to the one before. */
    async rotate(): Promise<string> {
      const { password } = secrets()
      generation++
      await settle()
      await settled(await locally(adapter.setPassword))
      return password
    },

    /** Ends every process of the container at once. */
    async kill(): Promise<void> {
      const { process: first } = (await host.inspect(spec.name)) ?? {}
      if (!first) throw new Error('It does not run.')
      process.kill(first.pid, 'SIGKILL')
      for (const deadline = Date.now() + 30_000; (await host.inspect(spec.name))?.running; await sleep(20))
        if (Date.now() > deadline) throw new Error('It runs still.')
    },

    state: () => host.inspect(spec.name),
    log: async (): Promise<string> => (await host.logs(spec.name, logBytes)) ?? '',
    /** What the machine's operator, and every local program with access to the container engine, can see. */
    async visible(): Promise<string> {
      const [info, top] = [
        await engineFact(`/containers/${spec.name}/json`),
        await engineFact(`/containers/${spec.name}/top`),
      ]
      return JSON.stringify([info, top])
    },

    async clean(): Promise<void> {
      await firewall.remove()
      await docker.clean(spec.network)
      await host.removeShare(ownerId)
      await remove()
    },
  } satisfies Record<string, unknown> & { spec: ContainerSpec }
}

/** What refused a dump; other errors are thrown. */
export function corrupt(error: unknown): DumpCorrupt {
  if (error instanceof DumpCorrupt) return error
  throw error
}
