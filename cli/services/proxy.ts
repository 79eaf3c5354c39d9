import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import { inspectNginx, nginxPackages } from '../../edge/nginx-binary.ts'
import { prepareEdge } from '../../edge/prepare.ts'
import type { SurfaceTargets } from '../../edge/surfaces.ts'
import type { Config } from '../../policy/config.ts'
import type { ProcessSpec } from '../../workers/supervisor/supervised-process.ts'
import type { Say } from '../terminal/terminal.ts'
import { findProgram, installPackages, MissingPart } from './system-packages.ts'

/**
 * The nginx that the setting NGINX names, or the distribution's with its Lua module, installed when missing; the distribution's own
 * service stays stopped. Throws `MissingPart` if the named one cannot serve: it is not replaced by another.
 */
export async function nginxBinary(say: Say, named: string | null = null): Promise<string> {
  if (named) return usable(named)
  const present = findProgram('nginx', process.env.PATH)
  if (present && (await hasLua(present))) return present
  await installPackages(
    { what: 'The proxy (nginx with its Lua module)', packages: nginxPackages, keepStopped: !present },
    say,
  )
  const installed = findProgram('nginx', process.env.PATH)
  if (!installed) throw new Error('nginx was installed, but is not on the PATH.')
  await inspectNginx(installed)
  return installed
}

async function usable(named: string): Promise<string> {
  await inspectNginx(named).catch(error => {
    throw new MissingPart(
      `${(error as Error).message}\nThe setting NGINX names ${named}: set it to the path of an nginx with its Lua module, or remove the setting.`,
    )
  })
  return named
}

function hasLua(nginx: string): Promise<boolean> {
  return inspectNginx(nginx).then(
    () => true,
    () => false,
  )
}

/** The reverse proxy as one of our processes. */
export async function proxyProcess(config: Config, targets: SurfaceTargets, say: Say): Promise<ProcessSpec> {
  const { bind, port, controlSocket, nginx: named } = config.edge
  const nginx = await nginxBinary(say, named)
  return {
    name: 'proxy',
    command: async () => ({ ...(await prepareEdge(config, { nginx, targets })), env: { PATH: process.env.PATH } }),
    ready: async () => {
      if (!existsSync(controlSocket)) throw new Error('the control socket does not exist yet')
      await accepts(bind === '0.0.0.0' || bind === '::' ? '127.0.0.1' : bind, port)
    },
    readySeconds: 30,
    stopSignal: 'SIGQUIT', // lets requests in progress finish
    graceSeconds: 9,
    needs: [],
  }
}

/** Resolves if a connection is accepted there, else rejects. */
export function accepts(host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, timeout: 1000 }, () => {
      socket.destroy()
      resolve()
    })
    socket.once('timeout', () => socket.destroy(new Error('timeout')))
    socket.once('error', reject)
  })
}
