"""What this machine and installation are: versions, Torch devices, CPUs, the git commit of the working folder.
May use the standard library, Torch and psutil, and the git executable where there is one.
"""
