# SPDX-License-Identifier: MIT
# Stores small images on a server. Usage: dicom_store.py PORT OPERATIONS
import sys

from pydicom.dataset import Dataset, FileMetaDataset
from pydicom.uid import ImplicitVRLittleEndian, generate_uid
from pynetdicom import AE

import rounds

SECONDARY_CAPTURE = "1.2.840.10008.5.1.4.1.1.7"
image = Dataset()
image.SOPClassUID, image.SOPInstanceUID, image.PatientName = SECONDARY_CAPTURE, generate_uid(), "x"
image.file_meta = FileMetaDataset()
image.file_meta.TransferSyntaxUID = ImplicitVRLittleEndian
image.is_little_endian, image.is_implicit_VR = True, True
entity = AE()
entity.add_requested_context(SECONDARY_CAPTURE, ImplicitVRLittleEndian)
association = entity.associate("127.0.0.1", int(sys.argv[1]))


def store():
    assert association.send_c_store(image).Status == 0


rounds.measure(store, int(sys.argv[2]))
association.release()
