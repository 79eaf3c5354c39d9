import { randomUUID } from 'node:crypto'
import {
  assertName,
  assertRoute,
  type Edge,
  type Route,
  type ServedCertificate,
  type ServedName,
  type ServedSettings,
} from '../../../activities/edge/port.ts'
import { checkedCertificate } from '../../../activities/edge/served-certificate.ts'
import { settingsLines } from '../../../activities/edge/settings-lines.ts'

/** The edge as a table in memory; held to the same suite as nginx. */
export function fakeEdge(): Edge {
  const routes = new Map<string, Route>()
  const names = new Map<string, ServedName>()
  const certificates = new Map<string, ServedCertificate>()
  const settings = new Map<string, ServedSettings>()
  const among = <T extends { host: string }>(table: Map<string, T>, hosts?: readonly string[]): T[] =>
    hosts ? [...new Set(hosts)].flatMap(host => table.get(host) ?? []) : [...table.values()]
  const [id, run] = [randomUUID(), randomUUID()]
  let mark: string | null = null
  return {
    async setRoute(route) {
      assertRoute(route)
      routes.set(route.host, { ...route })
    },
    async removeRoute(host, only) {
      const { appId, port } = routes.get(host) ?? {}
      if (only && (only.appId !== appId || (only.port ?? port) !== port)) return
      routes.delete(host)
    },
    async syncRoutes(wanted) {
      routes.clear()
      mark = null
      for (const route of wanted) routes.set(route.host, { ...route })
    },
    async listRoutes() {
      return [...routes.values()].map(route => ({ ...route }))
    },
    async findRoutes(hosts) {
      return among(routes, hosts).map(route => ({ ...route }))
    },
    async setName(name) {
      assertName(name)
      names.set(name.host, structuredClone(name))
    },
    async removeName(host) {
      names.delete(host)
    },
    async syncNames(wanted) {
      for (const name of wanted) assertName(name)
      names.clear()
      for (const name of wanted) names.set(name.host, structuredClone(name))
    },
    async listNames(hosts) {
      return structuredClone(among(names, hosts))
    },
    async standing() {
      return { id, run, mark }
    },
    async setMark(of, text) {
      if (of === run) mark = text
    },
    async setCertificate(certificate) {
      certificates.set(certificate.host, checkedCertificate(certificate))
    },
    async removeCertificate(host) {
      certificates.delete(host)
    },
    async syncCertificates(wanted) {
      const checked = wanted.map(checkedCertificate)
      certificates.clear()
      for (const certificate of checked) certificates.set(certificate.host, certificate)
    },
    async listCertificates(hosts) {
      return among(certificates, hosts).map(({ host, version }) => ({ host, version }))
    },
    async setSettings(wanted) {
      settingsLines(wanted)
      settings.set(wanted.host, structuredClone(wanted))
    },
    async removeSettings(host) {
      settings.delete(host)
    },
    async listSettings(hosts) {
      return among(settings, hosts).map(({ host, version }) => ({ host, version }))
    },
    async setAnswers(answers) {
      const odd = Object.values(answers).find(proof => proof !== null && !/^[\w-]+$/.test(proof))
      if (odd !== undefined) throw new RangeError(`Not an answer: ${odd}`)
    },
  }
}
