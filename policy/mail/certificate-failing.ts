import type { MailTemplate } from './template.ts'

/** A certificate that ends soon and could not be renewed. `reason`: what the authority said, in English. */
export type CertificateFailing = { hostname: string; days: number; reason: string }

export const certificateFailing: MailTemplate<CertificateFailing> = {
  'pt-BR': ({ hostname, days, reason }) => ({
    subject: `O certificado de ${hostname} termina em breve`,
    text: `O certificado do domínio ${hostname} termina em ${days} dias e não pôde ser renovado até agora. Depois disso, os navegadores recusam o domínio.

O motivo informado: ${reason}

Verifique os registros de DNS mostrados na aplicação. A renovação continua a ser tentada.`,
  }),
  'en-US': ({ hostname, days, reason }) => ({
    subject: `The certificate of ${hostname} ends soon`,
    text: `The certificate of the domain ${hostname} ends in ${days} days and could not be renewed so far. After that, browsers refuse the domain.

The reason given: ${reason}

Check the DNS records that the application shows. The renewal continues to be tried.`,
  }),
  'es-ES': ({ hostname, days, reason }) => ({
    subject: `El certificado de ${hostname} caduca pronto`,
    text: `El certificado del dominio ${hostname} caduca en ${days} días y hasta ahora no se ha podido renovar. Después, los navegadores rechazarán el dominio.

El motivo indicado: ${reason}

Comprueba los registros DNS que muestra la aplicación. Se sigue intentando renovarlo.`,
  }),
  'zh-CN': ({ hostname, days, reason }) => ({
    subject: `${hostname} 的证书即将到期`,
    text: `域名 ${hostname} 的证书将在 ${days} 天后到期，目前尚未能续期。到期后浏览器将拒绝访问该域名。

给出的原因：${reason}

请检查应用中显示的 DNS 记录。系统会继续尝试续期。`,
  }),
  'ja-JP': ({ hostname, days, reason }) => ({
    subject: `${hostname} の証明書の有効期限が近づいています`,
    text: `ドメイン ${hostname} の証明書は ${days} 日後に期限が切れますが、まだ更新できていません。期限が切れると、ブラウザーはこのドメインを拒否します。

示された理由: ${reason}

アプリケーションに表示される DNS レコードを確認してください。更新は引き続き試みられます。`,
  }),
  'fr-FR': ({ hostname, days, reason }) => ({
    subject: `Le certificat de ${hostname} expire bientôt`,
    text: `Le certificat du domaine ${hostname} expire dans ${days} jours et n'a pas pu être renouvelé jusqu'ici. Ensuite, les navigateurs refuseront le domaine.

La raison donnée : ${reason}

Vérifiez les enregistrements DNS affichés par l'application. Les essais de renouvellement continuent.`,
  }),
  'de-DE': ({ hostname, days, reason }) => ({
    subject: `Das Zertifikat von ${hostname} läuft bald ab`,
    text: `Das Zertifikat der Domain ${hostname} läuft in ${days} Tagen ab und konnte bisher nicht erneuert werden. Danach lehnen Browser die Domain ab.

Der angegebene Grund: ${reason}

Prüfen Sie die DNS-Einträge, die die Anwendung zeigt. Die Erneuerung wird weiter versucht.`,
  }),
  'it-IT': ({ hostname, days, reason }) => ({
    subject: `Il certificato di ${hostname} sta per scadere`,
    text: `Il certificato del dominio ${hostname} scade tra ${days} giorni e finora non è stato possibile rinnovarlo. Dopo, i browser rifiuteranno il dominio.

Il motivo indicato: ${reason}

Controlla i record DNS indicati dall'applicazione. Il rinnovo continua a essere tentato.`,
  }),
}
