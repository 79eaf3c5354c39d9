import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Docker from 'dockerode'
import { stopGraceSeconds } from '../../activities/containers/spec.ts'
import { MiB } from '../../lib/bytes.ts'
import { runtimes } from '../../policy/runtimes.ts'
import { untilAnswers } from './answer.ts'

/** A network of the engine's, made once like an application's and not measured. */
export async function floorNetwork(): Promise<{ name: string; remove(): Promise<void> }> {
  const network = await new Docker().createNetwork({ Name: `berth-bench-${process.pid}`, Driver: 'bridge' })
  return { name: `berth-bench-${process.pid}`, remove: () => network.remove() }
}

/** The floor: the same program in a container made with bare engine calls. Resolves to ms from the first call to its answer. */
export async function bareDeploy(network: string, program: string, text: string): Promise<number> {
  const startedAt = performance.now()
  return withBareContainer(network, program, text, async () => performance.now() - startedAt)
}

/** The floor of a restart: the engine's own, of such a container, until it has the new process. Resolves to ms. */
export function bareRestart(network: string, program: string, text: string): Promise<number> {
  return withBareContainer(network, program, text, async container => {
    const startedAt = performance.now()
    await container.restart({ t: stopGraceSeconds })
    return performance.now() - startedAt
  })
}

/** Does some work with a container of the program once it answers, and removes it. */
async function withBareContainer(
  network: string,
  program: string,
  text: string,
  work: (container: Docker.Container) => Promise<number>,
): Promise<number> {
  const docker = new Docker()
  const folder = await mkdtemp(join(tmpdir(), 'berth-floor-'))
  await writeFile(join(folder, 'index.js'), program)
  const container = await docker.createContainer({
    Image: runtimes.javascript.image(runtimes.javascript.recommended),
    Cmd: ['node', 'index.js'],
    WorkingDir: '/app',
    Env: ['PORT=80'],
    ExposedPorts: { '80/tcp': {} },
    Labels: { 'berth.bench': 'floor' },
    HostConfig: {
      Binds: [`${folder}:/app`],
      PortBindings: { '80/tcp': [{ HostIp: '127.0.0.1', HostPort: '' }] },
      Memory: 512 * MiB,
      Init: true,
      NetworkMode: network,
    },
  })
  try {
    await container.start()
    const port = Number((await container.inspect()).NetworkSettings.Ports['80/tcp']?.[0]?.HostPort)
    await untilAnswers({ address: '127.0.0.1', port, host: 'floor', text })
    return await work(container)
  } finally {
    await container.remove({ force: true, v: true })
    await rm(folder, { recursive: true, force: true })
  }
}
