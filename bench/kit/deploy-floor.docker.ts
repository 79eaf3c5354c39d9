import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import Docker from 'dockerode'
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
  const docker = new Docker()
  const folder = await mkdtemp(join(tmpdir(), 'berth-floor-'))
  await writeFile(join(folder, 'index.js'), program)
  const startedAt = performance.now()
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
    return performance.now() - startedAt
  } finally {
    await container.remove({ force: true, v: true })
    await rm(folder, { recursive: true, force: true })
  }
}
