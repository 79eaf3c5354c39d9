import { chmodSync, mkdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import type { Command } from 'commander'
import { endLeftovers, Supervisor } from '../workers/supervisor/supervisor.ts'
import { lockSupervisor } from '../workers/supervisor/supervisor-lock.ts'
import { loadInstallation } from './installation/installation.ts'
import { ourProcess } from './installation/platform.ts'
import { outliveOutput, sayOnStderr } from './terminal/terminal.ts'

interface HostOptions {
  name: string
  docker?: string
  data?: string
  memory?: string
}

/** Settings that a further host shares with the installation. On another machine they come from the environment. */
const shared = ['DATABASE_URL', 'TEMPORAL_ADDRESS', 'BERTH_MASTER_KEY']

export function hostCommand(program: Command): void {
  program
    .command('host')
    .requiredOption('--name <name>', 'its name in the cluster')
    .option('--docker <address>', 'its container engine, for example unix:///run/docker-2.sock')
    .option('--data <folder>', "its data folder; default: below the platform's")
    .option('--memory <mb>', 'memory it offers; default: all of the machine')
    .action(async ({ name, docker, data, memory }: HostOptions) => {
      if (!/^[a-z0-9][a-z0-9-]{0,31}$/.test(name))
        throw new Error(
          '--name must be at most 32 lower-case letters, digits and dashes, and begin with a letter or digit.',
        )
      const settings = sharedSettings()
      const dataDir = resolve(data ?? join(settings.BERTH_DATA ?? 'data', 'hosts', name))
      mkdirSync(join(dataDir, 'run'), { recursive: true, mode: 0o711 })
      chmodSync(dataDir, 0o711)
      await runHost(dataDir, {
        ...settings,
        BERTH_DATA: dataDir,
        HOST_NAME: name,
        HOST_STREAM_PORT: '0',
        ...(docker ? { DOCKER_HOST: docker } : {}),
        ...(memory ? { HOST_MEMORY_MB: memory } : {}),
      })
    })
}

/** What a host shares with the platform: one on this machine reads its settings, one elsewhere gets all of them from its environment. */
function sharedSettings(): Record<string, string> {
  if (shared.every(name => process.env[name])) return {}
  const { settings, config } = loadInstallation(process.env)
  const objects: Record<string, string> =
    config.objectStore.kind === 'filesystem' ? { OBJECT_STORE_FOLDER: config.objectStore.folder } : {}
  return {
    ...settings,
    ...objects,
    EDGE_CONTROL_SOCKET: config.edge.controlSocket,
    EDGE_ROUTES_FILE: config.edge.routesFile,
  }
}

async function runHost(dataDir: string, settings: Record<string, string>): Promise<void> {
  const runFolder = join(dataDir, 'run')
  outliveOutput(process)
  const release = await lockSupervisor(runFolder)
  const supervisor = new Supervisor({ runFolder, logFolder: join(dataDir, 'logs'), say: sayOnStderr })
  const stopped = new Promise<void>(resolve => {
    for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, resolve)
  })
  try {
    await endLeftovers(runFolder)
    await supervisor.start(ourProcess('host', 'host', [], settings))
    sayOnStderr(
      `The host ${settings.HOST_NAME} has joined; press Ctrl-C to make it leave. Its log: ${dataDir}/logs/host.log`,
    )
    await stopped
  } finally {
    await supervisor.stop()
    release()
  }
}
