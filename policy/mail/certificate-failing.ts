import type { MailTemplate } from './template.ts'

/** A certificate that expires soon, or with 0 days has expired or is about to, and could not be renewed. `reason`: what the authority said, in English. */
export type CertificateFailing = { hostname: string; days: number; reason: string }

export const certificateFailing: MailTemplate<CertificateFailing> = {
  'pt-BR': ({ hostname, days, reason }) => ({
    subject:
      days > 0 ? `O certificado de ${hostname} expira em breve` : `O certificado de ${hostname} não pôde ser renovado`,
    text: `${days > 0 ? `O certificado do domínio ${hostname} expira em ${days === 1 ? '1 dia' : `${days} dias`} e não pôde ser renovado até agora. Depois disso, os navegadores recusam o domínio.` : `O certificado do domínio ${hostname} expira hoje ou já expirou, e não pôde ser renovado até agora. Sem ele, os navegadores recusam o domínio.`}

O motivo informado: ${reason}

Verifique os registros de DNS mostrados na aplicação. O Berth continua tentando a renovação.`,
  }),
  'en-US': ({ hostname, days, reason }) => ({
    subject:
      days > 0 ? `The certificate of ${hostname} expires soon` : `The certificate of ${hostname} could not be renewed`,
    text: `${days > 0 ? `The certificate of the domain ${hostname} expires in ${days === 1 ? '1 day' : `${days} days`} and could not be renewed so far. After that, browsers refuse the domain.` : `The certificate of the domain ${hostname} expires today or has expired, and could not be renewed so far. Without it, browsers refuse the domain.`}

The reason given: ${reason}

Check the DNS records that the application shows. Berth keeps retrying the renewal.`,
  }),
  'es-ES': ({ hostname, days, reason }) => ({
    subject:
      days > 0
        ? `El certificado de ${hostname} caduca pronto`
        : `El certificado de ${hostname} no se ha podido renovar`,
    text: `${days > 0 ? `El certificado del dominio ${hostname} caduca en ${days === 1 ? '1 día' : `${days} días`} y hasta ahora no se ha podido renovar. Después, los navegadores rechazarán el dominio.` : `El certificado del dominio ${hostname} caduca hoy o ya ha caducado, y hasta ahora no se ha podido renovar. Sin él, los navegadores rechazan el dominio.`}

El motivo indicado: ${reason}

Comprueba los registros DNS que muestra la aplicación. Se sigue intentando renovarlo.`,
  }),
  'zh-CN': ({ hostname, days, reason }) => ({
    subject: days > 0 ? `${hostname} 的证书即将到期` : `${hostname} 的证书未能续期`,
    text: `${days > 0 ? `域名 ${hostname} 的证书将在 ${days} 天后到期，目前尚未能续期。到期后浏览器将拒绝访问该域名。` : `域名 ${hostname} 的证书将于今天到期或已经到期，目前尚未能续期。没有有效证书，浏览器将拒绝访问该域名。`}

给出的原因：${reason}

请检查应用中显示的 DNS 记录。系统会继续尝试续期。`,
  }),
  'ja-JP': ({ hostname, days, reason }) => ({
    subject: days > 0 ? `${hostname} の証明書の有効期限が近づいています` : `${hostname} の証明書を更新できていません`,
    text: `${days > 0 ? `ドメイン ${hostname} の証明書は ${days} 日後に期限が切れますが、まだ更新できていません。期限が切れると、ブラウザーはこのドメインを拒否します。` : `ドメイン ${hostname} の証明書は本日期限が切れるか、すでに切れていますが、まだ更新できていません。有効な証明書がないと、ブラウザーはこのドメインを拒否します。`}

示された理由: ${reason}

アプリケーションに表示される DNS レコードを確認してください。Berth は引き続き更新を試みます。`,
  }),
  'fr-FR': ({ hostname, days, reason }) => ({
    subject:
      days > 0
        ? `Le certificat de ${hostname} expire bientôt`
        : `Le certificat de ${hostname} n'a pas pu être renouvelé`,
    text: `${days > 0 ? `Le certificat du domaine ${hostname} expire dans ${days === 1 ? '1 jour' : `${days} jours`} et n'a pas pu être renouvelé jusqu'ici. Ensuite, les navigateurs refuseront le domaine.` : `Le certificat du domaine ${hostname} expire aujourd'hui ou a déjà expiré, et n'a pas pu être renouvelé jusqu'ici. Sans lui, les navigateurs refusent le domaine.`}

La raison donnée : ${reason}

Vérifiez les enregistrements DNS affichés par l'application. Berth continue d'essayer de le renouveler.`,
  }),
  'de-DE': ({ hostname, days, reason }) => ({
    subject:
      days > 0
        ? `Das Zertifikat von ${hostname} läuft bald ab`
        : `Das Zertifikat von ${hostname} konnte nicht erneuert werden`,
    text: `${days > 0 ? `Das Zertifikat der Domain ${hostname} läuft in ${days === 1 ? '1 Tag' : `${days} Tagen`} ab und konnte bisher nicht erneuert werden. Danach lehnen Browser die Domain ab.` : `Das Zertifikat der Domain ${hostname} läuft heute ab oder ist abgelaufen und konnte bisher nicht erneuert werden. Ohne gültiges Zertifikat lehnen Browser die Domain ab.`}

Der angegebene Grund: ${reason}

Prüfen Sie die DNS-Einträge, die die Anwendung zeigt. Berth versucht die Erneuerung weiter.`,
  }),
  'it-IT': ({ hostname, days, reason }) => ({
    subject:
      days > 0
        ? `Il certificato di ${hostname} sta per scadere`
        : `Il certificato di ${hostname} non è stato rinnovato`,
    text: `${days > 0 ? `Il certificato del dominio ${hostname} scade tra ${days === 1 ? '1 giorno' : `${days} giorni`} e finora non è stato possibile rinnovarlo. Dopo, i browser rifiuteranno il dominio.` : `Il certificato del dominio ${hostname} scade oggi o è già scaduto, e finora non è stato possibile rinnovarlo. Senza di esso, i browser rifiutano il dominio.`}

Il motivo indicato: ${reason}

Controlla i record DNS indicati dall'applicazione. Berth continua a tentare il rinnovo.`,
  }),
}
