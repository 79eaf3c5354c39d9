import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import { deriveKey } from './keys.ts'

/** Keys that seal secrets in columns, 32 bytes each, by the number in the first byte of every sealed value. */
export interface SealKeys {
  /** The key for new values; the others only unseal. */
  current: number
  keys: ReadonlyMap<number, Buffer>
}

/** Number of the key that is derived from the installation's root secret; it always exists. */
export const firstKeyId = 1
const maxKeyId = 255
const form = /^([1-9]\d{0,2}):([0-9a-f]{64})$/

/**
 * The first key and those that rotations have added: `2:<64 hex>,3:<64 hex>`. The highest number seals. Throws an Error that names the
 * setting without its value.
 */
export function sealKeys(masterKeyHex: string, further = ''): SealKeys {
  const keys = new Map([[firstKeyId, deriveKey(masterKeyHex, 'seal/1')]])
  for (const pair of further.split(',').filter(Boolean)) {
    const [, id, hex] = form.exec(pair.trim()) ?? []
    if (!id || !hex || Number(id) > maxKeyId || keys.has(Number(id)))
      throw new Error(
        `The setting BERTH_SEAL_KEYS must be pairs such as 2:<64 hex>, each number from 2 to ${maxKeyId} once.`,
      )
    keys.set(Number(id), Buffer.from(hex, 'hex'))
  }
  return { current: Math.max(...keys.keys()), keys }
}

/** Encrypts a secret for a column (AES-256-GCM), bound to its row and column. */
export function seal({ current, keys }: SealKeys, text: string, belongsTo: string): Buffer {
  const nonce = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', keys.get(current) as Buffer, nonce).setAAD(Buffer.from(belongsTo))
  const body = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()])
  return Buffer.concat([Buffer.of(current), nonce, cipher.getAuthTag(), body])
}

/** Decrypts a sealed value. Throws an Error when it was changed, belongs to another row or column, or its key is missing. */
export function unseal({ keys }: SealKeys, sealed: Buffer, belongsTo: string): string {
  const key = keys.get(sealed[0] ?? 0)
  if (!key || sealed.length < 29) throw new Error('A sealed secret names a key that this installation does not have.')
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(1, 13))
  decipher.setAAD(Buffer.from(belongsTo)).setAuthTag(sealed.subarray(13, 29))
  return Buffer.concat([decipher.update(sealed.subarray(29)), decipher.final()]).toString('utf8')
}
