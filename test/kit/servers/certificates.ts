import { execFileSync } from 'node:child_process'
import { join } from 'node:path'

const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']

/** Makes authorities and certificates of a folder; each is `<name>.pem` with its key `<name>.key`. */
export function certificates(folder: string) {
  const file = (name: string) => join(folder, name)
  const make = (name: string, subject: string[]) => {
    const own = ['req', '-x509', '-days', '2', ...key, '-keyout', file(`${name}.key`), '-out', file(`${name}.pem`)]
    execFileSync('openssl', [...own, ...subject], { stdio: 'ignore' })
    return { certificate: file(`${name}.pem`), key: file(`${name}.key`) }
  }
  return {
    authority: (name: string) => make(name, ['-subj', `/CN=${name}`]),
    /** Signed by an authority, for one DNS name. */
    signed(name: string, authority: string, dnsName: string) {
      const by = ['-CA', file(`${authority}.pem`), '-CAkey', file(`${authority}.key`)]
      const plain = ['-addext', 'basicConstraints=critical,CA:FALSE']
      return make(name, ['-subj', `/CN=${dnsName}`, '-addext', `subjectAltName=DNS:${dnsName}`, ...plain, ...by])
    },
  }
}
