import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, open, readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { crc32c } from '@node-rs/crc32'

/** Where the control file of versions 17 has what identifies a cluster. Other versions of the file are refused. */
const control = {
  path: 'global/pg_control',
  versionAt: 8,
  version: 1700,
  identifierAt: 0,
  /** Of salts that roles that do not exist seem to have: with the same one, its owner could tell them in every copy. */
  nonceAt: 256,
  nonceBytes: 32,
} as const

/** The header of a log segment has the identifier, too; no checksum covers it. */
const segment = { identifierAt: 24, name: /^[0-9A-F]{24}$/ } as const

const little64 = (value: bigint): Buffer => {
  const bytes = Buffer.alloc(8)
  bytes.writeBigUInt64LE(value)
  return bytes
}

/**
 * Gives a copy of a data folder, on which no server has run, a system identifier and a secret of its own, as initdb would: a base backup of
 * another copy is then refused by its log, and the other way round. Throws when the control file has another form than that of version 17.
 */
export async function giveIdentity(folder: string): Promise<void> {
  const log = join(folder, 'pg_wal')
  const segments = (await readdir(log)).filter(name => segment.name.test(name))
  await changed(join(folder, control.path), async file => {
    const { buffer } = await file.read(Buffer.alloc(control.nonceAt + control.nonceBytes + 4), 0, null, 0)
    const before = buffer.readBigUInt64LE(control.identifierAt)
    const covered = buffer.subarray(0, -4)
    if (buffer.readUInt32LE(control.versionAt) !== control.version || !sumOf(covered).equals(buffer.subarray(-4)))
      throw new Error('The control file of Postgres has a form that is not known.')
    const identifier = newIdentifier()
    little64(identifier).copy(buffer, control.identifierAt)
    randomBytes(control.nonceBytes).copy(buffer, control.nonceAt)
    sumOf(covered).copy(buffer, covered.length)
    for (const name of segments)
      await changed(join(log, name), async one => {
        const { buffer: header } = await one.read(Buffer.alloc(8), 0, 8, segment.identifierAt)
        if (header.readBigUInt64LE() !== before) throw new Error('The log of Postgres belongs to another control file.')
        await one.write(little64(identifier), 0, 8, segment.identifierAt)
      })
    await file.write(buffer, 0, buffer.length, 0)
  })
}

/** Seconds since 1970 in the high half, as initdb does; the low half at random, because several copies are made in one moment. */
const newIdentifier = (): bigint =>
  (BigInt(Math.floor(Date.now() / 1000)) << 32n) | BigInt(randomBytes(4).readUInt32LE())

/** Little-endian. */
function sumOf(bytes: Uint8Array): Buffer {
  const sum = Buffer.alloc(4)
  sum.writeUInt32LE(crc32c(bytes))
  return sum
}

async function changed(path: string, change: (file: FileHandle) => Promise<void>): Promise<void> {
  const file = await open(path, constants.O_RDWR | constants.O_NOFOLLOW)
  await change(file).finally(() => file.close())
}
