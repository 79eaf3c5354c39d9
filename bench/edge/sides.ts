import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ServedCertificate } from '../../activities/edge/port.ts'
import { unusedPort } from '../../cli/installation/ports.ts'
import { accepts } from '../../cli/services/proxy.ts'
import { tlsChoices } from '../../policy/installation/edge-tls.ts'
import { startProxy, type TestProxy } from '../../test/kit/servers/proxy.ts'
import { cpuSeconds } from './nginx-cpu.ts'

/** An nginx of the bench. */
export interface Side {
  port: number
  tlsPort: number
  /** Seconds of CPU that its workers have used: more even than the time of a machine that is busy with its clients. */
  cpuSeconds(): Promise<number>
  stop(): Promise<void>
}

const workers = 1

/** nginx with nothing but `lines` in its server; by https with one certificate, with the versions, ciphers and cache of our proxy. */
export async function bareNginx(folder: string, certificate: ServedCertificate, lines: string[]): Promise<Side> {
  const [port, tlsPort] = [await unusedPort(), await unusedPort()]
  for (const part of ['', 'client_body', 'proxy']) await mkdir(join(folder, part), { recursive: true })
  const pem = join(folder, 'served.pem')
  await writeFile(pem, certificate.chain + certificate.key, { mode: 0o600 })
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
  const text = [
    `user www-data; daemon off; pid ${folder}/nginx.pid; error_log stderr warn; worker_processes ${workers};`,
    'events { worker_connections 4096; }',
    `http { access_log ${folder}/access.log combined; tcp_nodelay on; keepalive_requests 1000000; http2_max_concurrent_streams 64;`,
    ...temporary.map(name => `${name}_temp_path ${folder}/${name};`),
    `server { listen 127.0.0.1:${port}; listen 127.0.0.1:${tlsPort} ssl http2;`,
    `ssl_certificate ${pem}; ssl_certificate_key ${pem}; ssl_protocols TLSv1.2 TLSv1.3;`,
    `ssl_ciphers ${tlsChoices.ciphers.join(':')}; ssl_ecdh_curve ${tlsChoices.curves.join(':')};`,
    'ssl_session_tickets off; ssl_session_cache shared:sessions:20m;',
    ...lines,
  ]
  await writeFile(join(folder, 'nginx.conf'), text.join('\n'))
  const child = spawn('nginx', ['-p', folder, '-e', 'stderr', '-c', join(folder, 'nginx.conf')], { stdio: 'ignore' })
  for (
    let look = 0;
    !(await accepts('127.0.0.1', tlsPort).then(
      () => true,
      () => false,
    ));
    look++
  ) {
    if (look === 400 || child.exitCode !== null) throw new Error('nginx did not start')
    await sleep(25)
  }
  return {
    port,
    tlsPort,
    cpuSeconds: () => cpuSeconds(folder),
    async stop() {
      const ended = once(child, 'exit')
      child.kill('SIGTERM')
      await ended
    },
  }
}

/** Our proxy with as many workers. */
export async function ourProxy(): Promise<Side & Pick<TestProxy, 'edge'>> {
  const proxy = await startProxy({ EDGE_TLS: 'local', EDGE_WORKERS: String(workers), RATE_LIMIT_SCALE: '1000' })
  const { port, tlsPort, edge, stop } = proxy
  return { port, tlsPort, edge, stop, cpuSeconds: () => cpuSeconds(join(proxy.config.dataDir, 'proxy')) }
}
