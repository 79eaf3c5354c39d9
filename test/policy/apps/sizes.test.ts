import test from 'ava'
import { cpuSharesFor, cpusFor, diskMbFor, openFilesFor, pidsFor, socketBytesFor } from '../../../policy/apps/sizes.ts'
import { parseConfig } from '../../../policy/config.ts'

/** Memory in MB: disk in MB with the usual setting, cores, weight, processes, open files. */
const rows: Record<number, [disk: number, cpus: number, shares: number, pids: number, files: number]> = {
  256: [1024, 1, 16, 64, 1024],
  512: [2048, 1, 32, 128, 1024],
  600: [3072, 1, 37, 150, 1200],
  1024: [4096, 1, 64, 256, 2048],
  4096: [16_384, 2, 256, 512, 4096],
  16384: [65_536, 8, 1024, 512, 4096],
  32768: [131_072, 8, 2048, 512, 4096],
}

test('an application has 1 GB of disk per 256 MB of memory, and cores, processes and files in proportion', t => {
  const { diskMbPer256Mb } = parseConfig({}, '/somewhere').host
  for (const [memory, expected] of Object.entries(rows)) {
    const mb = Number(memory)
    t.deepEqual(
      [diskMbFor(mb, diskMbPer256Mb), cpusFor(mb), cpuSharesFor(mb), pidsFor(mb), openFilesFor(mb)],
      expected,
      memory,
    )
  }
})

test('where sockets do not count as memory, the kernel may use a quarter of it for them', t => {
  t.is(socketBytesFor(256), 64 * 1024 * 1024)
})
