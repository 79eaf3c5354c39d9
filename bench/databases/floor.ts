import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { engineOf } from '../../activities/databases/engines/select.ts'
import { runProcess, systemEnvironment } from '../../lib/child-process.ts'
import type { EngineName } from '../../policy/databases/engine.ts'
import { engines } from '../../policy/databases/engines.ts'
import { mongoStandIn } from '../../policy/databases/mongo.ts'
import { type EngineContainer, engineContainer } from '../../test/kit/databases/engine-container.ts'
import { realDocker } from '../../test/kit/servers/docker.ts'
import { benchEngines } from './engines.ts'

/** Disk in MB, on a file system of its own as databases have: a sync is one of the same size on both sides. */
const diskMb = 4096

/** A database that was made by raw engine calls with the settings, limits and image that Berth gives one, without rows, lanes or requests. */
export interface FloorDatabase {
  engine: EngineContainer
  /** From the unpacking of the prepared folder to the first login over TLS, in ms. */
  tookMs: number
  remove(): Promise<void>
}

/** What raw engine calls need before the clock runs. */
export async function openFloor(name: EngineName) {
  const { version, memoryMb, standIn, prepared } = benchEngines[name]
  const adapter = engineOf(name)
  const image = standIn ? mongoStandIn.image(version) : engines[name].image(version)
  const folder = mkdtempSync(join(tmpdir(), 'berth-floor-'))
  const archive = join(folder, 'prepared.tar')
  // The engine's user unpacks it.
  chmodSync(folder, 0o755)
  const docker = realDocker()
  const make = () => engineContainer({ adapter, engine: name, version, memoryMb, image, standIn, diskMb })

  /** Everything that exists before a creation: volume, certificates, network. */
  async function readied(): Promise<EngineContainer> {
    const engine = await make()
    await docker.host.ensureImage(image)
    await docker.host.ensureNetwork({ name: engine.spec.network, labels: {} })
    await engine.certify()
    return engine
  }

  /** Seconds that the engine takes to make an empty data folder, and the archive that the floor unpacks. */
  async function prepare(): Promise<number> {
    const engine = await make()
    try {
      await engine.certify()
      await engine.settle()
      const startedAt = performance.now()
      await engine.initialise()
      const tookMs = performance.now() - startedAt
      const form = ['--create', '--sparse', '--exclude=auto.cnf', `--directory=${engine.folders.data}`]
      if (prepared) await runProcess('tar', [...form, `--file=${archive}`, prepared], { env: systemEnvironment })
      return tookMs
    } finally {
      await engine.clean()
    }
  }

  async function login(engine: EngineContainer): Promise<void> {
    const answer = await adapter.login(engine.remote, engine.secrets().password)
    if (answer !== 'accepted') throw new Error('The floor does not accept its own password.')
  }

  return {
    prepare,
    login,

    async create(): Promise<FloorDatabase> {
      const engine = await readied()
      const { data } = engine.folders
      const user = { env: systemEnvironment, uid: engine.traits.uid, gid: engine.traits.uid }
      const startedAt = performance.now()
      if (prepared) await runProcess('tar', ['--extract', `--file=${archive}`], { ...user, cwd: data })
      else if (adapter.initialise(engine.traits).length > 0) await engine.initialise()
      await runProcess('sync', ['-f', data], { env: systemEnvironment })
      await engine.start()
      await engine.settled(await engine.locally(adapter.setPassword))
      await login(engine)
      return { engine, tookMs: performance.now() - startedAt, remove: () => engine.clean() }
    },

    /** One change of the password, and the two logins that prove it, in ms. */
    async rotate(engine: EngineContainer): Promise<number> {
      const startedAt = performance.now()
      const before = await engine.rotate()
      await login(engine)
      if ((await adapter.login(engine.remote, before)) !== 'refused') throw new Error('The old password works.')
      return performance.now() - startedAt
    },

    /** One stop and one start until a login is accepted, in ms. */
    async restart(engine: EngineContainer): Promise<number> {
      const startedAt = performance.now()
      await engine.stop()
      await engine.start()
      await login(engine)
      return performance.now() - startedAt
    },

    /** The engine's own tool, in a container of its image, into a file of the same disk; synced. */
    async dump(engine: EngineContainer): Promise<number> {
      const command = benchEngines[name].bareDump({
        port: engine.traits.port,
        platformPassword: engine.secrets().platformPassword,
      })
      const target = engine.dumpFolder()
      const startedAt = performance.now()
      if (command) await engine.job(target).run(command)
      else {
        const client = await benchEngines[name].connect(engine.remote, engine.secrets().password)
        await client.readAll?.(join(target, 'bare'))
        client.end()
      }
      await runProcess('sync', ['-f', target], { env: systemEnvironment })
      const tookMs = performance.now() - startedAt
      rmSync(target, { recursive: true, force: true })
      return tookMs
    },

    close: () => rmSync(folder, { recursive: true, force: true }),
  }
}

export type Floor = Awaited<ReturnType<typeof openFloor>>
