import { crc32, deflateRawSync } from 'node:zlib'
import { noise } from './bodies.ts'
import { appZip, type ZipEntry, zipOf, zipOfEntries } from './zips.ts'

/** Bytes of zeros, a thousandth of their size. */
export const zeros = (megabytes: number): Buffer => zipOf({ 'zeros.bin': Buffer.alloc(megabytes * 1024 ** 2) })

/** The same spread over files too small to be judged alone. */
export function manyZeros(files: number, megabytesEach: number): Buffer {
  return repeated(files, Buffer.alloc(megabytesEach * 1024 ** 2))
}

/** Unpacks to this many times 12 MiB, at a ratio that is still legal. */
export const heavy = (times: number): Buffer =>
  repeated(times, Buffer.concat([noise(150_000), Buffer.alloc(12 * 1024 ** 2 - 150_000)]))

/** Every entry points at the bytes of the first. */
export function overlapping(times: number): Buffer {
  const data = noise(100_000)
  const first = { path: '0', data, method: 0 }
  const again = {
    offset: 0,
    method: 0,
    body: Buffer.alloc(0),
    size: data.length,
    compressedSize: data.length,
    crc: crc32(data),
  }
  return zipOfEntries([first, ...Array.from({ length: times }, (_, index) => ({ path: `${index + 1}`, ...again }))])
}

/** This many empty files. */
export const empties = (count: number): Buffer =>
  zipOfEntries(Array.from({ length: count }, (_, index) => ({ path: `f${index}` })))

/** A valid application with so many files in a folder of packages that is dropped. */
export function withPackages(count: number): Buffer {
  const packages = Object.fromEntries(
    Array.from({ length: count }, (_, index) => [`node_modules/p${index}/index.js`, 'x']),
  )
  return appZip(packages)
}

function repeated(files: number, data: Buffer): Buffer {
  const honest = { body: deflateRawSync(data), method: 8, size: data.length, crc: crc32(data) } satisfies Omit<
    ZipEntry,
    'path'
  >
  return zipOfEntries(Array.from({ length: files }, (_, index) => ({ path: `part${index}`, ...honest })))
}
